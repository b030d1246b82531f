"""Tables: translates SQL statements into operations on streams.

Not here: parsing and analysis of statements (`spark_bridge/sql`).
"""
