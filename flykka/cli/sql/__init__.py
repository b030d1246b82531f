"""`flykka sql`: runs a script of statements, or statements typed one by one.

Statements are implemented in `api/table`.
"""
