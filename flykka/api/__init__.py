"""The API of programs: the environment, its settings, streams and tables.

Operators and connectors are in `spark_bridge`; clients of submitted jobs are in `client` and `cluster`.
"""
