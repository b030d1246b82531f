"""Recorded runs for readers: stories of a checkpoint, an attempt or a job, diagrams, selections of records.

Not here: reading trace files (`runtime/trace`), and replaying them (`replay`).
"""
