"""Work in Spark's Python workers: keyed batches, look-ups in segments, and users' functions.

Not here: the Spark jobs that run it (`operators`).
"""
