"""Comparing what was recorded of two runs."""
