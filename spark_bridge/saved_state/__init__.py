"""Keyed state in checkpoints and savepoints, read and written as DataFrames outside of any job.

Not here: the state of running operators (`state`).
"""
