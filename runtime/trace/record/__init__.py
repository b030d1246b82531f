"""Recorders: turns are noted in passing, and come into a file, a ring or a flight record.

Not here: the format of files (`trace/file`).
"""
