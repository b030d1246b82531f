"""Metrics of a cluster and its jobs, by the scopes and the names that Flink has for them.

Not here: counting, which is where the work is done.
"""
