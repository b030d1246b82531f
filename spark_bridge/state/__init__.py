"""Keyed state: segments of immutable rows, snapshots of segments, and the files that operators write into a checkpoint.

Not here: how Python workers process segments (`worker`).
"""
