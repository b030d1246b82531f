"""Scheduling strategies: which tasks begin when, and which results are released."""
