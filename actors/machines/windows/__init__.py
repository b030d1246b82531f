"""Event-time windows: integer arithmetic, and the state of a window operator.

Not here: rows and their aggregates (`spark_bridge/operators`).
"""
