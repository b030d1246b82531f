"""Keyed state: segments of immutable rows, snapshots of them, and what operators write into a checkpoint.

Not here: the work on segments in Python workers (`worker`).
"""
