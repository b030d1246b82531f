"""Area 09: the exchange of data between tasks."""
