"""`flykka sql`: runs a script of statements, or statements typed one by one.

The meaning of statements is in `api/table`.
"""
