"""`flykka sql`: runs a script of statements, or statements typed one by one.

Not here: the implementation of statements (`api/table`).
"""
