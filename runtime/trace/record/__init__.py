"""Recorders: they collect turns and write them to a file, a ring or a flight record.

Not here: the format of files (`trace/file`).
"""
