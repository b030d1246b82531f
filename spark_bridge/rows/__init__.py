"""Stored rows: batches, files, and the file systems that Spark can access.

Keyed state is in `state`; connectors are in `connectors`.
"""
