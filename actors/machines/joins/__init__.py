"""Joins of two streams: the rows that are retained of each side, and for how long.

Not here: rows and their columns (`spark_bridge/operators`).
"""
