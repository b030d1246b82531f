"""Tables: SQL texts become verbs of streams.

Not here: parsing and analysis of texts (`spark_bridge/sql`).
"""
