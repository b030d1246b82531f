"""Work on the segments of a state by themselves: they are merged, read, and made of rows. Each is for `mapInArrow`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles

from flykka.spark_bridge.worker.segment_file import VERSION, Segment, merged, newest, read_segment, write_segment

CONTROL = "__control"
"""The column of what was written: the number of rows of a new segment, and the greatest version in it."""

CONTROL_TYPE = pa.list_(pa.int64())


def path_of(name: str) -> Path:
    """The path of a segment on this machine, in a folder that goes with the executor."""
    return Path(SparkFiles.getRootDirectory()) / name


def segments_of(names: Sequence[str]) -> list[Segment]:
    """Map segments into memory."""
    return [read_segment(path_of(name)) for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSegments:
    """Merges segments, named from the oldest to the newest, into one."""

    names: tuple[str, ...]
    target: str
    schema: pa.Schema
    drops_deleted: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge them, for a single row; what was written."""
        for _ in batches:
            segments = segments_of(self.names)
            yield _written(self.target, merged(segments, drops_deleted=self.drops_deleted), self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSegments:
    """Reads the newest row of each key from segments, named from the oldest to the newest."""

    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read them, for a single row."""
        for _ in batches:
            for table in merged(segments_of(self.names)):
                yield from table.to_batches()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSegment:
    """Writes rows of state, which come in any order, as a segment."""

    target: str
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all rows; what was written."""
        arrived = [batch for batch in batches if batch.num_rows]
        if arrived:
            yield _written(self.target, [newest(pa.Table.from_batches(arrived).combine_chunks())], self.schema)


def _written(target: str, tables: Sequence[pa.Table] | Iterator[pa.Table], schema: pa.Schema) -> pa.RecordBatch:
    versions: list[int] = []

    def noted() -> Iterator[pa.Table]:
        for table in tables:
            if table.num_rows:
                versions.append(pc.max(table.column(VERSION)).as_py())
            yield table

    rows = write_segment(path_of(target), schema, noted())
    return pa.RecordBatch.from_pydict({CONTROL: pa.array([[rows, max(versions, default=0)]], CONTROL_TYPE)})
