"""Metrics of a cluster and its jobs, with Flink's scopes and names.

They are counted where the work is done, not here.
"""
