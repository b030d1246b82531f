"""Stored rows: batches, files, and the file systems that Spark can access.

Not here: keyed state (`state`), and connectors (`connectors`).
"""
