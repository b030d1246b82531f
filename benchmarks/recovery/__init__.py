"""Measures failures: lost and duplicated rows, and the time until the work continues."""
