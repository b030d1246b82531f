"""Comparison of the recordings of two runs.

Not here: comparison of a replay with its record (`replay`).
"""
