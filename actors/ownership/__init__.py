"""Ownership of folders: at most one process runs a job on a checkpoint folder, or writes to a sink's folder.

Not here: the leader of a cluster (`high_availability`).
"""
