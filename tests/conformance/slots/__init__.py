"""Area 10: slots, from what a job needs of them to what a TaskManager says of them."""
