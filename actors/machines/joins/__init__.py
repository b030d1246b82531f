"""Joins of two streams: what is kept of each side, and how long.

Not here: rows and their columns (`spark_bridge/operators`).
"""
