"""Files, archives and Python packages of users, for functions in Spark's Python workers (Flink's DistributedCache).

Not here: files that sources and sinks read and write (`connectors/file`).
"""
