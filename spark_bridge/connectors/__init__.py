"""Sources and sinks: what connectors share, and a folder for each of flykka's own.

Not here: their ports (`program/source`, `program/sink`), and their tables in SQL (`sql/connectors`).
"""
