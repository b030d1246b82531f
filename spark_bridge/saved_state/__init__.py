"""Keyed state in checkpoints and savepoints, read and written as DataFrames outside of any job.

The state of running operators is in `state`.
"""
