"""Joins of two streams: which rows of each side are retained, and for how long.

Not here: rows and their columns (`spark_bridge/operators`).
"""
