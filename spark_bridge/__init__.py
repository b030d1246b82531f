"""THE WAY TO SPARK: the bridge actor, the session, batches, stages, sources and sinks.

The only room that imports pyspark, and it does so where a session is made: importing the room needs no JVM.
"""

if __name__ != "flykka.spark_bridge":
    raise ImportError(
        f"import this room as flykka.spark_bridge, not as {__name__}: a second copy of every class would follow"
    )
