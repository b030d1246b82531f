"""Keyed state in files on the executors: segments of one row per key, which Python workers map into memory.

A batch reads only the state of its keys, whatever the size of the state. The job that processes a batch writes its
segment, which the job's store holds like a batch. A snapshot writes a folder of parquet files, as for state in Spark's
blocks, from which a segment is restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.types import ArrayType, BooleanType, LongType, StructField, StructType

from flykka.actors.machines.state.segments import Reading, Segment, Unwritten
from flykka.messages.state.handles import FileDigest, SharedStateHandle, StateSchema
from flykka.messages.tasks.exchange import BatchRef
from flykka.messages.wire.ids import BatchId
from flykka.spark_bridge.program.stored_columns import evolved_columns
from flykka.spark_bridge.rows.batches import Batch
from flykka.spark_bridge.rows.materialise import estimated_bytes
from flykka.spark_bridge.rows.partitioning import positions_of
from flykka.spark_bridge.session.session import has_one_machine
from flykka.spark_bridge.state.attempt_storage import AttemptStorage, StoredState
from flykka.spark_bridge.worker.segment_file import IS_DELETED, POSITION, VERSION, CleanUp
from flykka.spark_bridge.worker.segments import (
    CONTROL,
    SAVED,
    LoadSegments,
    MergeSegments,
    SavedRows,
    SaveSegments,
    SegmentFolder,
)
from flykka.spark_bridge.worker.time_columns import arrow_schema

if TYPE_CHECKING:
    from flykka.actors.machines.state.keyed_state import StatePart
    from flykka.messages.tasks.task import TaskDeploymentDescriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """Segments, by file names from the oldest to the newest."""

    names: tuple[str, ...]
    are_oldest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSegments:
    saved: tuple[SavedRows, ...]


StateRows = SegmentFiles | SavedSegments
"""On the executors or in a checkpoint."""

SegmentWork = MergeSegments | LoadSegments

CONTROL_COLUMNS = StructType([StructField(CONTROL, ArrayType(LongType()))])


class _File:
    rdd_id = None

    def __init__(self, folder: SegmentFolder, name: str) -> None:
        self._folder = folder
        self._name = name

    def is_whole(self) -> bool:
        """Return True if the next attempt can open the file, on any machine."""
        return self._folder.has(self._name)

    def free(self) -> None:
        self._folder.delete(self._name)


class FileStateBackend(StoredState[StateRows]):
    """Stores one state of one attempt in files. Its rows have the columns of `schema` and the keys."""

    merge_at = 4

    def __init__(
        self,
        keys: tuple[StructField, ...],
        values: tuple[StructField, ...],
        storage: AttemptStorage,
        in_background: Callable[[str, Callable[[], None]], None],
        clean_up: Callable[[], CleanUp | None] = lambda: None,
        state_schema: StateSchema | None = None,
    ) -> None:
        """`in_background` runs work, given with a description. `clean_up` is called at each merge."""
        super().__init__(storage)
        descriptor = storage.descriptor
        self._state_schema = state_schema
        self.schema = state_columns_of(keys, values)
        self.arrow_schema = arrow_schema(self.schema)
        self.folder = SegmentFolder(
            name=f"flykka-state/{descriptor.job_id}/{descriptor.vertex.vertex_id}/{descriptor.subtask}",
            shared=None if has_one_machine(storage.scope.session) else _shared_folder(descriptor),
        )
        self._in_background = in_background if storage.merges_in_background else None
        self._clean_up = clean_up
        self._made = 0

    def new_name(self) -> str:
        with self._lock:
            self._made += 1
            return f"{self.attempt}-{self._made}"

    def written(
        self,
        name: str,
        rows: int,
        version: int,
        first_event_timer_ms: int | None,
        first_processing_timer_ms: int | None,
    ) -> Segment[StateRows] | None:
        if not rows:
            return None
        ref = BatchRef(batch_id=BatchId(name), rows=rows, size_bytes=estimated_bytes(self.schema, rows))
        self._store.put(
            _File(self.folder, name),
            [Batch(ref=ref, rows=None, holder=self._holder)],
            producer=self._descriptor.attempt,
        )
        return Segment(
            batch_id=ref.batch_id,
            frame=SegmentFiles(names=(name,)),
            rows=rows,
            version=version,
            first_timers_ms=(first_event_timer_ms, first_processing_timer_ms),
        )

    def keep(self, rows: StateRows) -> Segment[StateRows] | None:
        name = self.new_name()
        work: SegmentWork
        if isinstance(rows, SegmentFiles):
            work = MergeSegments(
                folder=self.folder,
                names=rows.names,
                target=name,
                schema=self.arrow_schema,
                drops_deleted=rows.are_oldest,
                clean_up=self._clean_up(),
            )
        else:
            work = LoadSegments(folder=self.folder, saved=rows.saved, target=name, schema=self.arrow_schema)
        (row,) = self._done(work, CONTROL_COLUMNS)
        return self.written(name, *row[CONTROL])

    def _saved(self, work: SaveSegments) -> Sequence[Mapping[str, Any] | Row]:
        if self.folder.shared is None:
            # The segments are on this machine, so a Spark job would only take longer.
            self._scope.check()
            return [row for batch in work.written() for row in batch.to_pylist()]
        return self._done(work, SAVED)

    def _done(self, work: SegmentWork | SaveSegments, columns: StructType | str) -> list[Row]:
        self._scope.check()
        return self._scope.session.range(1).coalesce(1).mapInArrow(work, columns).collect()

    def read(self, readings: Sequence[Reading[StateRows]]) -> SegmentFiles:
        segments = sorted((reading.segment for reading in readings), key=lambda segment: segment.version)
        names: list[str] = []
        for segment in segments:
            assert isinstance(segment.frame, SegmentFiles), "the segment is not stored in files"
            names += segment.frame.names
        return SegmentFiles(names=tuple(names))

    def merge(self, rows: StateRows, *, are_oldest: bool) -> StateRows:
        """If the segments are the oldest, keys without state are dropped."""
        return replace(rows, are_oldest=are_oldest) if isinstance(rows, SegmentFiles) else rows

    def load(self, part: StatePart) -> SavedSegments:
        return SavedSegments(
            saved=tuple(
                SavedRows(
                    address=_address(handle.path),
                    between=None if key_groups is None else positions_of(key_groups),
                    stored_columns=self._stored_columns(part.written_as),
                    files=handle.files,
                    rows=handle.rows if isinstance(handle, SharedStateHandle) else None,
                )
                for handle, key_groups in part.handles
            )
        )

    def _stored_columns(self, written_as: StateSchema | None) -> dict[str, str | None]:
        if written_as is None or self._state_schema is None:
            return {}
        return evolved_columns(written_as, self._state_schema)

    def write(
        self, parts: Sequence[tuple[str, Unwritten[StateRows]]], savepoint: str | None
    ) -> Iterator[SharedStateHandle]:
        if not parts:
            return
        filesystem, descriptor = self._filesystem, self._descriptor
        job = f"{descriptor.checkpoint_directory}/{descriptor.job_id}"
        folders = [filesystem.qualified(f"{savepoint or f'{job}/shared'}/{state_id}") for state_id, _ in parts]
        work = SaveSegments(
            folder=self.folder,
            saved=tuple(
                (_address(folder), self.read(part.readings).names)
                for folder, (_, part) in zip(folders, parts, strict=True)
            ),
            schema=self.arrow_schema,
            within=_address(filesystem.qualified(savepoint or job)) if descriptor.checkpoint_fsync else None,
        )
        try:
            saved = self._saved(work)
        except BaseException:
            for folder in folders:
                filesystem.delete(folder)
            raise
        for (state_id, _), folder, row in zip(parts, folders, saved, strict=True):
            file = saved_file(row)
            yield SharedStateHandle(
                state_id=state_id,
                path=folder,
                rows=row["rows"],
                size_bytes=file.size_bytes,
                key_groups=self.owned,
                files=(file,),
            )

    def has_memory_for(self, batch_ids: Sequence[BatchId]) -> bool:
        return True

    def in_background(self, work: Callable[[], None]) -> None:
        """Merge in parallel to stages, which may read and add segments at the same time."""
        if self._in_background is None:
            work()
        else:
            self._in_background("merging keyed state", work)


def state_columns_of(keys: tuple[StructField, ...], values: tuple[StructField, ...]) -> StructType:
    return StructType(
        [
            StructField(POSITION, LongType()),
            *keys,
            *values,
            StructField(VERSION, LongType()),
            StructField(IS_DELETED, BooleanType()),
        ]
    )


def saved_file(row: Mapping[str, Any] | Row) -> FileDigest:
    return FileDigest(name=row["name"], size_bytes=row["size_bytes"], digest=bytes(row["digest"]))


def _shared_folder(descriptor: TaskDeploymentDescriptor) -> str:
    return _address(f"{descriptor.checkpoint_directory}/{descriptor.job_id}/segments")


def _address(path: str) -> str:
    """Return a path in the form of Python's file systems: Hadoop writes local paths with only one slash."""
    return path.removeprefix("file:")
