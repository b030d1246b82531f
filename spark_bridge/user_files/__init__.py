"""Files, archives and Python packages of users, for functions in Spark's Python workers (Flink's DistributedCache).

Files of sources and sinks are in `connectors/file`.
"""
