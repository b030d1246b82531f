"""Comparing what was recorded of two runs.

Not here: comparing a replay with its record (`replay`).
"""
