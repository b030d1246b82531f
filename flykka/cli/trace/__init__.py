"""`flykka trace`: what actors did, read from a trace.

Not here: reading (`runtime/trace`) and telling (`traces`); Spark, which is not loaded for it.
"""
