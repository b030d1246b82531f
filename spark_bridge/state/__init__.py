"""Keyed state: segments of immutable rows, snapshots of them, what operators write into a checkpoint."""
