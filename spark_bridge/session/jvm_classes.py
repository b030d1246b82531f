"""Classes of the JVM, looked up once.

PySpark asks the JVM for the class and the function again for every column that it makes. Each time that is a search
through all jars of Spark, where a name is short or a part of one: a third of a millisecond, a thousand times a job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_OF_PYSPARK = {
    "PythonUtils": ("toList", "toSeq"),
    "functions": ("col", "lit"),
    "org.apache.spark.sql.functions": ("coalesce", "col", "count", "lit", "max", "min"),
    "org.apache.spark.sql.classic.SparkSession": ("getActiveSession",),
    "org.apache.spark.sql.Observation": (),
}
"""Classes that PySpark looks up by these names, with static functions that it calls."""


def remember_classes(context: SparkContext) -> None:
    """Let PySpark find the classes that it looks for at each column."""
    for name, functions in _OF_PYSPARK.items():
        try:
            found = jvm_class(context, name)
            for function in functions:
                if function not in vars(found):
                    setattr(found, function, getattr(found, function))
        except Py4JError:
            # Another version of PySpark, which looks up others.
            continue


def jvm_class(context: SparkContext, name: str) -> Any:
    """A class, by its whole name or one that PySpark imports."""
    assert context._jvm is not None, "the context was stopped"
    known = vars(context._jvm)
    if name not in known:
        known[name] = getattr(context._jvm, name)
    return known[name]


def scala_sequence(context: SparkContext, items: Iterable[Any]) -> Any:
    """The items as a Scala sequence."""
    return jvm_class(context, "PythonUtils").toSeq(list(items))


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    """The rows of a logical plan."""
    datasets = jvm_class(session.sparkContext, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(datasets.ofRows(session._jsparkSession, plan), session)
