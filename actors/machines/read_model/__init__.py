"""The read model of a job: its state as the messages about it tell, for clients and displays to ask."""
