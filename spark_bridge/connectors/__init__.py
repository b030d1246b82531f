"""Sources and sinks: the parts that connectors share, and a folder for each of flykka's own.

Not here: their interfaces (`program/source`, `program/sink`), and their tables in SQL (`sql/connectors`).
"""
