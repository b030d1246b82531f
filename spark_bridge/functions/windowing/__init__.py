"""Windows of rows for user code per key, following Flink's WindowOperator: assigners, triggers, evictors.

Not here: windows of aggregates, which Spark computes (`operators`).
"""
