"""Keyed state in files on the executors: segments of one row per key, which Python workers map into memory.

A batch reads of the state what belongs to its keys, and nothing else, however large the state is. A segment is written
by the job that processes the batch, and held in the job's store as batches are. What a snapshot adds is one folder of
parquet files, as with state in Spark's blocks, from which a segment is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, LongType, StructField, StructType

from flykka.actors.machines.state.key_groups import key_groups_of
from flykka.actors.machines.state.segments import Reading, Segment, Unwritten
from flykka.messages.state.handles import SharedStateHandle
from flykka.messages.tasks.batch import BatchRef
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.rows.batches import Batch
from flykka.spark_bridge.rows.files import read_parquet, write_files
from flykka.spark_bridge.rows.materialise import counted, estimated_bytes, numbers_of, together
from flykka.spark_bridge.rows.partitioning import positions_of
from flykka.spark_bridge.worker.segment_file import IS_DELETED, POSITION, VERSION
from flykka.spark_bridge.worker.segments import CONTROL, MergeSegments, ReadSegments, WriteSegment, path_of

if TYPE_CHECKING:
    import pyarrow as pa

    from flykka.actors.machines.state.keyed_state import Handle, StatePart
    from flykka.messages.state.handles import KeyGroupRange
    from flykka.messages.tasks.task import TaskDeploymentDescriptor
    from flykka.spark_bridge.attempt.scope import AttemptScope
    from flykka.spark_bridge.attempt.services import Services

ArrowFunction = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """Segments by the names of their files, from the oldest to the newest."""

    names: tuple[str, ...]
    are_oldest: bool = False


StateRows = SegmentFiles | DataFrame
"""The rows of segments, or those that were read from a checkpoint."""


class _File:
    """The storage of one segment."""

    rdd_id = None

    def __init__(self, name: str) -> None:
        self._name = name

    def free(self) -> None:
        """Delete the file."""
        path_of(self._name).unlink(missing_ok=True)


class FileStateBackend:
    """Implements `StateBackend` for one state of one attempt, a row of which has the columns of `schema` and keys."""

    merge_at = 4

    def __init__(
        self,
        keys: tuple[StructField, ...],
        values: tuple[StructField, ...],
        descriptor: TaskDeploymentDescriptor,
        scope: AttemptScope,
        services: Services,
    ) -> None:
        vertex = descriptor.vertex
        self.owned = key_groups_of(descriptor.subtask, vertex.max_parallelism, vertex.parallelism)
        self.attempt: str = descriptor.attempt
        self.schema = StructType(
            [
                StructField(POSITION, LongType()),
                *keys,
                *values,
                StructField(VERSION, LongType()),
                StructField(IS_DELETED, BooleanType()),
            ]
        )
        self.arrow_schema = to_arrow_schema(self.schema, timezone="UTC")
        self._descriptor = descriptor
        self._scope = scope
        self._services = services
        self._store = services.store
        self._holder = f"{descriptor.attempt} state"
        self._lock = Lock()
        self._made = 0

    def new_name(self) -> str:
        """The name of a segment that is about to be written."""
        with self._lock:
            self._made += 1
            return f"flykka-state/{self.attempt}/{self._made}"

    def written(self, name: str, rows: int, version: int) -> Segment[StateRows] | None:
        """The segment that was written under a name; None where it has no rows, and no file."""
        if not rows:
            return None
        ref = BatchRef(batch_id=BatchId(name), rows=rows, size_bytes=estimated_bytes(self.schema, rows))
        self._store.put(
            _File(name), [Batch(ref=ref, frame=None, holder=self._holder)], producer=self._descriptor.attempt
        )
        return Segment(batch_id=ref.batch_id, frame=SegmentFiles(names=(name,)), rows=rows, version=version)

    def keep(self, rows: StateRows) -> Segment[StateRows] | None:
        """Write rows as one segment, by one Spark job."""
        name = self.new_name()
        if isinstance(rows, SegmentFiles):
            function: ArrowFunction = MergeSegments(
                names=rows.names, target=name, schema=self.arrow_schema, drops_deleted=rows.are_oldest
            )
            frame = self._services.session.range(1)
        else:
            function, frame = WriteSegment(target=name, schema=self.arrow_schema), rows
        control = StructType([StructField(CONTROL, ArrayType(LongType()))])
        self._scope.check()
        told = frame.coalesce(1).mapInArrow(function, control).collect()
        number, version = told[0][CONTROL] if told else (0, 0)
        return self.written(name, number, version)

    def read(self, readings: Sequence[Reading[StateRows]]) -> SegmentFiles:
        """The rows of segments."""
        segments = sorted((reading.segment for reading in readings), key=lambda segment: segment.version)
        names: list[str] = []
        for segment in segments:
            assert isinstance(segment.frame, SegmentFiles), "segments lie in files"
            names += segment.frame.names
        return SegmentFiles(names=tuple(names))

    def merge(self, rows: StateRows, *, are_oldest: bool) -> StateRows:
        """The newest row of each key; of the oldest segments, no row of a key that has no state any more."""
        return replace(rows, are_oldest=are_oldest) if isinstance(rows, SegmentFiles) else rows

    def load(self, part: StatePart) -> DataFrame:
        """The rows behind the handles of a checkpoint, of the key groups that they are read for."""
        wanted: dict[KeyGroupRange | None, list[str]] = {}
        for handle, key_groups in part.handles:
            wanted.setdefault(key_groups, []).append(handle.path)
        return together([self._loaded(paths, key_groups) for key_groups, paths in wanted.items()])

    def _loaded(self, paths: list[str], key_groups: KeyGroupRange | None) -> DataFrame:
        rows = read_parquet(self._services.session, paths, self.schema)
        return rows if key_groups is None else rows.where(F.col(POSITION).between(*positions_of(key_groups)))

    def write(self, part: Unwritten[StateRows], state_id: str, savepoint: str | None) -> SharedStateHandle:
        """Write segments into a folder. One Spark job."""
        filesystem, descriptor = self._services.filesystem, self._descriptor
        shared = f"{descriptor.checkpoint_directory}/{descriptor.job_id}/shared"
        folder = filesystem.qualified(f"{savepoint or shared}/{state_id}")
        read = ReadSegments(names=self.read(part.readings).names)
        observation, rows = counted(self._services.session.range(1).coalesce(1).mapInArrow(read, self.schema), {})
        try:
            files = write_files(filesystem, rows, folder)
        except BaseException:
            filesystem.delete(folder)
            raise
        return SharedStateHandle(
            state_id=state_id,
            path=folder,
            rows=int(numbers_of(observation).get("rows", 0)),
            size_bytes=sum(status.size_bytes for status in files),
            key_groups=self.owned,
        )

    def delete(self, handle: Handle) -> None:
        """Delete a folder."""
        self._services.filesystem.delete(handle.path)

    def hold(self, batch_ids: Sequence[BatchId], holder: str) -> None:
        """Add a holder to segments."""
        self._store.hold(batch_ids, holder)

    def release(self, batch_ids: Sequence[BatchId], holder: str | None = None) -> None:
        """Let go of segments: those of a holder, or (None) the state's own."""
        self._store.release(batch_ids, holder or self._holder)

    def check(self) -> None:
        """Raise `AttemptCancelledError` where the attempt is over."""
        self._scope.check()
