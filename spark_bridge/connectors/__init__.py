"""Sources and sinks: code that connectors share, and a folder for each of flykka's own connectors.

Not here: their interfaces (`program/source`, `program/sink`), and their tables in SQL (`sql/connectors`).
"""
