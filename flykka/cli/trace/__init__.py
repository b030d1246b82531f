"""`flykka trace`: shows the actions of actors from a trace. Loads no Spark.

Not here: reading traces (`runtime/trace`), and describing them (`traces`).
"""
