"""Failures and restarts: which tasks restart, when, and what is remembered of it."""
