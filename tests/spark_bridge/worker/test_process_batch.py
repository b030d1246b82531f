"""Tests that a Python worker passes all columns of a batch to the function, also one named like a state."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkFiles

from flykka.spark_bridge.worker.process_batch import KeyedBatch, Processed, ProcessKeyedBatch
from flykka.spark_bridge.worker.segments import SegmentFolder
from tests.spark_bridge.worker.tables import SCHEMA, key_columns


class Keeping:
    """Stores its input rows in a list, and keeps no state."""

    def __init__(self) -> None:
        self.given = pa.table({})

    def process(self, batch: KeyedBatch, state: pa.Table) -> Processed:
        self.given = batch.rows
        return Processed(rows=batch.rows.slice(0, 0), state=state)


def test_a_row_column_may_share_the_name_of_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    function = Keeping()
    process = ProcessKeyedBatch(
        folder=SegmentFolder(name="state"), segments=(), target="new", version=1, schema=SCHEMA, function=function
    )
    batch = key_columns([(1, "a"), (2, "b")]).append_column("total", pa.array([1.5, 2.5]))

    list(process(iter(batch.to_batches())))

    assert function.given["total"].to_pylist() == [1.5, 2.5]
