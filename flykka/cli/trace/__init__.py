"""`flykka trace`: shows the actions of actors from a trace. Does not load Spark.

Not here: reading traces (`runtime/trace`), and describing them (`traces`).
"""
