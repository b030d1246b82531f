"""Metrics of a cluster and its jobs, with Flink's scopes and names.

Not here: counting, which is done by the code that does the work.
"""
