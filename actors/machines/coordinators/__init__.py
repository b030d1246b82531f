"""Operator coordinators and global aggregates: the JobMaster's side of functions."""
