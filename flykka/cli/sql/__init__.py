"""`flykka sql`: a script of statements, or statements that are typed one by one.

Not here: the meaning of a statement (`api/table`).
"""
