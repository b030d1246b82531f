"""Windows of event time: arithmetic on integers, and what an operator of windows remembers.

Not here: rows and their aggregates (`spark_bridge/operators`).
"""
