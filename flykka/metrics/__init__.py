"""Metrics of a cluster and its jobs, with Flink's scopes and names.

The counters themselves are in the code whose work they count.
"""
