"""PostgreSQL as a sink, as a source of changes and as a table for look-ups, through psycopg.

Not here: other users of psycopg: only this folder imports it.
"""
