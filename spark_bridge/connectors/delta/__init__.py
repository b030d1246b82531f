"""Delta tables as a source and as a sink, with delta-rs, so that Spark needs no jar.

Not here: other code that uses delta-rs. Only this folder imports it.
"""
