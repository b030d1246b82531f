"""Connectors of tables: what CREATE TABLE ... USING says, as the sources and sinks of the connectors.

Not here: the connectors themselves (`connectors`).
"""
