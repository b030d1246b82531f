"""Work in Spark's Python workers: batches by key, look-ups in segments, functions of users.

Not here: the Spark jobs that run it (`operators`).
"""
