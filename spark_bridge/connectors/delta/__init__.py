"""Delta tables as a source and as a sink, through delta-rs: Spark needs no jar.

Not here: other users of delta-rs: only this folder imports it.
"""
