"""Iceberg tables as a sink, through pyiceberg: Spark needs no jar for them.

Not here: other users of pyiceberg: only this folder imports it.
"""
