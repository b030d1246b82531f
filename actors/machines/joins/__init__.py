"""Joins of two streams: what they keep of each side, and how long."""
