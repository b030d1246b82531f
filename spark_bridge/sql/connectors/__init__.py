"""Table connectors: turn CREATE TABLE ... USING into sources and sinks of the connectors.

Not here: the connectors themselves (`connectors`).
"""
