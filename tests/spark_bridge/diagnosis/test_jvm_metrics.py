"""Tests metrics of the driver's JVM under Flink's names."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from flykka.spark_bridge.diagnosis.jvm_metrics import jvm_metrics


@pytest.mark.spark
def test_memory_collectors_threads_and_classes_are_measured(spark: SparkSession) -> None:
    metrics = jvm_metrics(spark.sparkContext)

    memory = "Status.JVM.Memory"
    assert 0 < metrics[f"{memory}.Heap.Used"] <= metrics[f"{memory}.Heap.Committed"] <= metrics[f"{memory}.Heap.Max"]
    assert metrics[f"{memory}.Metaspace.Used"] > 0
    assert {f"{memory}.{pool}.TotalCapacity" for pool in ("Direct", "Mapped")} <= metrics.keys()
    assert any(name.startswith("Status.JVM.GarbageCollector.") and name.endswith(".Time") for name in metrics)
    assert metrics["Status.JVM.Threads.Count"] > 1
    assert metrics["Status.JVM.ClassLoader.ClassesLoaded"] > 1_000


def test_a_dead_jvm_has_no_metrics() -> None:
    stopped = SimpleNamespace(_jvm=None)
    context: SparkContext = stopped  # type: ignore[assignment]

    assert jvm_metrics(context) == {}
