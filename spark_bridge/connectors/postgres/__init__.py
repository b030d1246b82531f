"""PostgreSQL as sink, as source of changes and as a table to look things up in, by psycopg: the only folder with it."""
