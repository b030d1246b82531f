"""Restored state is loaded at once, in however many pieces it lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka.messages.state.handles import KeyGroupRange
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.session.session import engine_session
from flykka.spark_bridge.state.storage import StateReader, write_state

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_pieces_of_a_state_are_read_by_one_job_each_time_and_their_columns_are_looked_up_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    session, filesystem, groups = engine_session(spark), FileSystem(spark), KeyGroupRange(start=0, end=127)
    handles = [
        write_state(filesystem, session.range(3), 3, str(tmp_path / f"{piece}"), f"{piece}", groups)
        for piece in range(4)
    ]
    reader = StateReader(session)
    session.sparkContext.setJobGroup("reading state", "")

    whole, half = reader.read(handles), reader.read(handles[:2])
    looked_up = len(session.sparkContext.statusTracker().getJobIdsForGroup("reading state"))
    session.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type] # None takes it away

    assert looked_up == 1
    assert (whole.count(), half.count()) == (12, 6)
