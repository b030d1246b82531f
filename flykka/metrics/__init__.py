"""Metrics of a cluster and its jobs, with Flink's scopes and names.

Not here: counters, which are in the code whose work they count.
"""
