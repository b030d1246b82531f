"""Runs random programs on random tables, and compares each result of a stream with that of a Spark batch."""
