"""Rows made of their number, as a source."""
