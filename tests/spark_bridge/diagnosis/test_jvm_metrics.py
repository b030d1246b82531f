"""Tests metrics of the driver's JVM under Flink's names."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from flykka.spark_bridge.diagnosis.jvm_metrics import jvm_metrics


@pytest.mark.spark
def test_memory_collectors_threads_and_classes_are_measured(spark: SparkSession) -> None:
    found = jvm_metrics(spark.sparkContext)

    memory = "Status.JVM.Memory"
    assert 0 < found[f"{memory}.Heap.Used"] <= found[f"{memory}.Heap.Committed"] <= found[f"{memory}.Heap.Max"]
    assert found[f"{memory}.Metaspace.Used"] > 0
    assert {f"{memory}.{pool}.TotalCapacity" for pool in ("Direct", "Mapped")} <= found.keys()
    assert any(name.startswith("Status.JVM.GarbageCollector.") and name.endswith(".Time") for name in found)
    assert found["Status.JVM.Threads.Count"] > 1
    assert found["Status.JVM.ClassLoader.ClassesLoaded"] > 1_000


def test_a_dead_jvm_has_no_metrics() -> None:
    stopped = SimpleNamespace(_jvm=None)
    context: SparkContext = stopped  # type: ignore[assignment]

    assert jvm_metrics(context) == {}
