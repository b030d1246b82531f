"""Recorders: what is noted of turns, and how it comes into a file."""
