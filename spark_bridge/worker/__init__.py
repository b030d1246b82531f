"""Work in Spark's Python workers: batches by key, look-ups in segments, functions of users.

The Spark jobs that run it are in `operators`.
"""
