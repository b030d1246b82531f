"""Area 10: slots, from the requirements of a job to the reports of a TaskManager."""
