"""Measures the cost of observing a job, and the response times for large jobs."""
