"""Sources and sinks: the parts that connectors share, and a folder for each of flykka's own.

Their interfaces are in `program/source` and `program/sink`, their SQL tables in `sql/connectors`.
"""
