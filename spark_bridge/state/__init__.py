"""Keyed state: segments of immutable rows, snapshots of them, and what operators write into a checkpoint.

The work on segments in Python workers is in `worker`.
"""
