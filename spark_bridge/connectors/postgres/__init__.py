"""PostgreSQL as a sink, as a source of changes and as a table for look-ups, through psycopg, which only this folder
imports.
"""
