"""`flykka trace`: shows the actions of actors from a trace. Does not load Spark.

Traces are read by `runtime/trace`, and described by `traces`.
"""
