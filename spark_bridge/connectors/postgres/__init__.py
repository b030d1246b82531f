"""PostgreSQL as a sink, as a source of changes and as a table to look things up in, through psycopg.

Not here: other users of psycopg: only this folder imports it.
"""
