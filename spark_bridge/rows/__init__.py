"""Rows at rest: batches, files, and the file systems that Spark reaches.

Not here: keyed state (`state`), and connectors.
"""
