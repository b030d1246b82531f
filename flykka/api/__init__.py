"""The API of programs: the environment, its settings, streams and tables.

Not here: operators and connectors (`spark_bridge`), and submitted jobs (`client`, `cluster`).
"""
