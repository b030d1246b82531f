"""PostgreSQL as a sink, as a source of changes and as a table for look-ups, with psycopg.

Not here: other code that uses psycopg. Only this folder imports it.
"""
