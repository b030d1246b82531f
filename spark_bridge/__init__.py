"""The data plane on Spark: the session, engines of execution attempts, operators, sources and sinks.

The only package that imports pyspark, and it does so where a session is made: importing it needs no JVM.
"""

if __name__ != "flykka.spark_bridge":
    raise ImportError(
        f"import this package as flykka.spark_bridge, not as {__name__}: a second copy of every class would follow"
    )
