"""Ownership of folders: one process at most runs a job on a checkpoint folder, or writes for it to a sink's folder."""
