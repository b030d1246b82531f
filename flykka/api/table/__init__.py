"""Tables: SQL texts become operations on streams.

Not here: parsing and analysis of the texts (`spark_bridge/sql`).
"""
