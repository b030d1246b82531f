"""Classes of the JVM and their static functions, looked up once.

PySpark asks the JVM for the class and the function again for every column that it makes. Each time that is a search
through all jars of Spark, where a name is short or a part of one: a third of a millisecond, a thousand times a job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass, JavaMember, JVMView
from pyspark import SparkContext
from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SINGLETON = "MODULE$"


class _RememberedClass(JavaClass):  # type: ignore[misc]
    """A class that looks up each function once, and the instance of a Scala object; fields may change."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember) or name == _SINGLETON:
            setattr(self, name, found)
        return found


class _RememberingView(JVMView):  # type: ignore[misc]
    """The classes of a JVM. A name without a class is looked up again: PySpark may import the class later."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaClass):
            found.__class__ = _RememberedClass
            setattr(self, name, found)
        return found


_Context = SparkContext | type[SparkContext]


def remember_classes(context: _Context) -> None:
    """Look up each class of the context's JVM once from now on."""
    assert context._jvm is not None, "the context was stopped"
    context._jvm.__class__ = _RememberingView


def jvm_class(context: _Context, name: str) -> Any:
    """A class, by its whole name or one that PySpark imports."""
    assert context._jvm is not None, "the context was stopped"
    return getattr(context._jvm, name)


def is_instance(java: Any, name: str) -> bool:
    return bool(jvm_class(SparkContext, "py4j.reflection.TypeUtil").isInstanceOf(name, java))


def scala_sequence(context: SparkContext, items: Iterable[Any]) -> Any:
    return jvm_class(context, "PythonUtils").toSeq(list(items))


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    datasets = jvm_class(session.sparkContext, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(datasets.ofRows(session._jsparkSession, plan), session)
