"""Recorded runs for readers: stories of a checkpoint, an attempt or a job, diagrams, selections of records.

Trace files are read by `runtime/trace`, and replayed by `replay`.
"""
