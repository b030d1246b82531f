"""The job graph."""
