"""Operator coordinators and global aggregates: the JobMaster's side of functions.

Not here: coordinators of sources (`sources`).
"""
