"""Tables: translates SQL statements into operations on streams.

Statements are parsed and analyzed in `spark_bridge/sql`.
"""
