"""Connectors of tables: turn CREATE TABLE ... USING into the sources and sinks of the connectors.

Not here: the connectors themselves (`connectors`).
"""
