"""Metrics of the JVM of Spark's driver, with Flink's names. Reading them calls the JVM, which blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from flykka.spark_bridge.session.jvm_classes import jvm_class

if TYPE_CHECKING:
    from pyspark import SparkContext

_JVM = "Status.JVM"
_POOLS = {"direct": "Direct", "mapped": "Mapped"}
"""Memory pools outside the heap: Java's names, and Flink's."""


def jvm_metrics(context: SparkContext) -> dict[str, float]:
    """Return sizes in bytes, times of the garbage collectors in ms and of the CPU in ns; empty if the JVM is gone."""
    try:
        return dict(_measured(context))
    except (OSError, AssertionError, Py4JError):
        return {}


def _measured(context: SparkContext) -> Iterator[tuple[str, float]]:
    beans = jvm_class(context, "java.lang.management.ManagementFactory")
    memory = beans.getMemoryMXBean()
    yield from _usage("Heap", memory.getHeapMemoryUsage())
    yield from _usage("NonHeap", memory.getNonHeapMemoryUsage())
    for pool in _each(beans.getMemoryPoolMXBeans()):
        if pool.getName() == "Metaspace":
            yield from _usage("Metaspace", pool.getUsage())
    kind = jvm_class(context, "java.lang.Class").forName("java.lang.management.BufferPoolMXBean")
    for pool in _each(beans.getPlatformMXBeans(kind)):
        if (name := _POOLS.get(pool.getName())) is not None:
            yield f"{_JVM}.Memory.{name}.Count", pool.getCount()
            yield f"{_JVM}.Memory.{name}.MemoryUsed", pool.getMemoryUsed()
            yield f"{_JVM}.Memory.{name}.TotalCapacity", pool.getTotalCapacity()
    for collector in _each(beans.getGarbageCollectorMXBeans()):
        name = f"{_JVM}.GarbageCollector.{collector.getName().replace(' ', '_')}"
        yield f"{name}.Count", collector.getCollectionCount()
        yield f"{name}.Time", collector.getCollectionTime()
    yield f"{_JVM}.Threads.Count", beans.getThreadMXBean().getThreadCount()
    worked = jvm_class(context, "java.lang.ProcessHandle").current().info().totalCpuDuration()
    if worked.isPresent():
        yield f"{_JVM}.CPU.Time", worked.get().toNanos()
    classes = beans.getClassLoadingMXBean()
    yield f"{_JVM}.ClassLoader.ClassesLoaded", classes.getTotalLoadedClassCount()
    yield f"{_JVM}.ClassLoader.ClassesUnloaded", classes.getUnloadedClassCount()


def _each(java_list: Any) -> list[Any]:
    """Return the elements of a Java list. Py4J's iterator would end with an exception, which is slower."""
    return [java_list.get(place) for place in range(java_list.size())]


def _usage(kind: str, usage: Any) -> Iterator[tuple[str, float]]:
    yield f"{_JVM}.Memory.{kind}.Used", usage.getUsed()
    yield f"{_JVM}.Memory.{kind}.Committed", usage.getCommitted()
    # The value is -1 if there is no limit.
    yield f"{_JVM}.Memory.{kind}.Max", usage.getMax()
