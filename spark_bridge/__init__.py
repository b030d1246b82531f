"""The data plane on Spark: the session, engines of execution attempts, operators, sources, sinks, SQL.

Not here: decisions about jobs (`actors`). No other package imports pyspark; importing this package starts no JVM.
"""

if __name__ != "flykka.spark_bridge":
    raise ImportError(
        f"import this package as flykka.spark_bridge, not as {__name__}: a second copy of every class would follow"
    )
