"""Tables: SQL texts become operations on streams.

Parsing and analysis of the texts are in `spark_bridge/sql`.
"""
