"""The API of programs: the environment, its settings, streams and tables.

Not here: operators and connectors themselves (`spark_bridge`), and jobs that were submitted (`client`, `cluster`).
"""
