"""Tests that restored state is loaded at once, from any number of files."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from flykka.actors.machines.state.keyed_state import StatePart
from flykka.actors.machines.state.segments import Reading, ResultBounds, Unwritten
from flykka.messages.state.handles import SharedStateHandle
from flykka.spark_bridge.attempt.engine import SparkEngine
from flykka.spark_bridge.operators.keyed_store import KeyedOperator
from flykka.spark_bridge.state.spark_state_backend import SparkStateBackend
from tests.spark_bridge.harness import Harness

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_segments_of_a_state_are_read_by_one_job_per_load(harness: Harness, spark: SparkSession) -> None:
    windows = harness.begin(harness.vertex("windows", harness.windows(), harness.sink()))
    backend = backend_of(windows.engine)
    handles = [write_three_rows(backend, harness.plane.session, f"{piece}") for piece in range(4)]
    spark.sparkContext.setJobGroup("reading state", "")

    whole, half = backend.load(part(handles)), backend.load(part(handles[:2]))
    looked_up = len(spark.sparkContext.statusTracker().getJobIdsForGroup("reading state"))
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type] # None takes it away

    assert looked_up == 1
    assert (whole.count(), half.count()) == (12, 6)


def backend_of(engine: SparkEngine) -> SparkStateBackend:
    assert isinstance(engine.head, KeyedOperator)
    backend = engine.head.stores[""].backend
    assert isinstance(backend, SparkStateBackend)
    return backend


def write_three_rows(backend: SparkStateBackend, session: SparkSession, state_id: str) -> SharedStateHandle:
    segment = backend.keep(session.range(3).selectExpr("id as __window", "id as __key_0"))
    assert segment is not None
    (handle,) = backend.write(
        [(state_id, Unwritten(readings=(Reading(segment=segment),), bounds=ResultBounds()))], None
    )
    return handle


def part(handles: Sequence[SharedStateHandle]) -> StatePart:
    return StatePart(handles=[(handle, None) for handle in handles])
