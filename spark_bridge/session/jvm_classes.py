"""Remembers classes of the JVM and their static functions.

PySpark looks up the class and the function for every column that it creates. Each time the JVM searches all jars of
Spark, because the name is short or partial: a third of a millisecond, a thousand times per job.
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
    """A class that looks up each function, and the instance of a Scala object, only once. Other fields may change."""

    def __getattr__(self, name: str) -> Any:
        attribute = super().__getattr__(name)
        if isinstance(attribute, JavaMember) or name == _SINGLETON:
            setattr(self, name, attribute)
        return attribute


class _RememberingView(JVMView):  # type: ignore[misc]
    """A view that remembers its classes. A missing class is looked up again: PySpark may import it later."""

    def __getattr__(self, name: str) -> Any:
        attribute = super().__getattr__(name)
        if isinstance(attribute, JavaClass):
            attribute.__class__ = _RememberedClass
            setattr(self, name, attribute)
        return attribute


_Context = SparkContext | type[SparkContext]


def remember_classes(context: _Context) -> None:
    """Make the context's JVM view look up each class only once."""
    assert context._jvm is not None, "the Spark context was stopped"
    context._jvm.__class__ = _RememberingView


def jvm_class(context: _Context, name: str) -> Any:
    assert context._jvm is not None, "the Spark context was stopped"
    return getattr(context._jvm, name)


def scala_object(context: _Context, name: str) -> Any:
    return getattr(jvm_class(context, f"{name}$"), _SINGLETON)


def is_instance(java: Any, name: str) -> bool:
    return bool(jvm_class(SparkContext, "py4j.reflection.TypeUtil").isInstanceOf(name, java))


def scala_sequence(context: SparkContext, items: Iterable[Any]) -> Any:
    return jvm_class(context, "PythonUtils").toSeq(list(items))


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    datasets = jvm_class(session.sparkContext, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(datasets.ofRows(session._jsparkSession, plan), session)
