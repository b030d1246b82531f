"""`flykka trace`: shows the actions of actors from a trace. Loads no Spark.

Traces are read in `runtime/trace` and described in `traces`.
"""
