"""Keyed state in checkpoints and savepoints, read and written as DataFrames outside of any job.

Not here: state of running operators (`state`).
"""
