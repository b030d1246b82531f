"""Windows of rows for user code per key, after Flink's WindowOperator: assigners, triggers, evictors.

Windows of aggregates, which Spark computes, are in `operators`.
"""
