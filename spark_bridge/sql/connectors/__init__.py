"""Connectors of tables: turn CREATE TABLE ... USING into the sources and sinks of the connectors.

The connectors themselves are in `connectors`.
"""
