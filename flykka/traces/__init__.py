"""Recorded runs for readers: stories of a checkpoint, an attempt or a job, diagrams, selections of records.

Not here: the files of traces (`runtime/trace`) and their replay (`replay`).
"""
