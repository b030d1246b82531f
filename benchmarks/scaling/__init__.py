"""Measures the cost of a row, a key, a task and a file as their numbers grow."""
