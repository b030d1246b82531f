"""Cluster datasets: rows that one job has kept for later jobs of its environment, by their ids (Flink's cache()).

A dataset is known from the submission of the job that computes it. It is complete when that job has finished, and gone
when the job has ended otherwise, when somebody lets go of it, or when its files are not all there any more. Files stay
until the jobs are over that read them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING

from flykka.errors import ProgramError
from flykka.spark_bridge.connectors.dataset import DatasetSink, DatasetSource, complete_files, delete_dataset
from flykka.spark_bridge.operators.sink_code import SinkCode
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.session.spark_sessions import SessionState, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flykka.client.job_client import JobClient
    from flykka.spark_bridge.operators.code import KeyByCode, OperatorCode
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.program.prototype import SparkSession

logger = logging.getLogger("flykka")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDataset:
    """A dataset as it is told of (Flink's ClusterDataSetEntry)."""

    dataset_id: str
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRows:
    """Rows to be read: their folder, and whether there are none."""

    folder: str
    is_empty: bool


@dataclass(slots=True, kw_only=True, eq=False)
class _KeptDataset:
    """The rows that one job computes, or has computed; their files as they were when they were first looked at."""

    folder: str
    producer: JobClient
    readers: list[JobClient] = field(default_factory=list)
    files: Sequence[str] | None = None

    @property
    def is_used(self) -> bool:
        return any(not client.done() for client in (self.producer, *self.readers))

    @property
    def is_complete(self) -> bool:
        return self.producer.done() and self.producer.exception() is None

    @property
    def has_failed(self) -> bool:
        return self.producer.done() and self.producer.exception() is not None


class ClusterDatasets:
    """The datasets of one environment. Safe to use from any thread."""

    def __init__(self, session: Callable[[], SparkSession], registry: CodeRegistry) -> None:
        self._session = session
        self._registry = registry
        self._lock = RLock()
        self._kept: dict[str, _KeptDataset] = {}
        # Let go of, and not deleted yet.
        self._released: list[_KeptDataset] = []

    def find(self, dataset_id: str) -> DatasetRows | None:
        """The rows for a job that reads them; None where the job is to compute them. May block.

        Raises:
            ProgramError: another job still computes them.
        """
        with self._lock:
            self._let_go()
            kept = self._kept.get(dataset_id)
            if kept is None:
                return None
            if not kept.producer.done():
                raise ProgramError(
                    f"the rows that cache() is to keep are still being computed, by job {kept.producer.job_name!r}:"
                    " wait for its end, by wait() of its client, before another job reads them"
                )
            files = complete_files(self._filesystem, kept.folder)
            if files is None or files != (kept.files or files):
                logger.warning("%s is not whole any more: the rows of cache() are computed again", kept.folder)
                self.release(dataset_id)
                return None
            kept.files = files
            return DatasetRows(folder=kept.folder, is_empty=not files)

    def belong_to(self, client: JobClient) -> None:
        """A job was submitted: it computes datasets, and reads others."""
        with self._lock:
            for code in self._codes(client):
                if isinstance(code, SinkCode) and isinstance(code.sink, DatasetSink):
                    self.release(code.sink.dataset_id)
                    folder = code.sink.for_job(client.job_id).path
                    self._kept[code.sink.dataset_id] = _KeptDataset(folder=folder, producer=client)
                if isinstance(code, SourceCode) and isinstance(code.source, DatasetSource):
                    self._note_reader(code.source, client)

    def listed(self) -> tuple[ClusterDataset, ...]:
        """The datasets that are complete or are being computed, in the order in which they were begun."""
        with self._lock:
            self._let_go()
            return tuple(
                ClusterDataset(dataset_id=dataset_id, is_complete=kept.is_complete)
                for dataset_id, kept in self._kept.items()
            )

    def release(self, dataset_id: str) -> None:
        """Let go of the rows, if there are some: the next job that needs them computes them. May block."""
        with self._lock:
            if (kept := self._kept.pop(dataset_id, None)) is not None:
                self._released.append(kept)
            self._let_go()

    def close(self, *, keeps_files: bool) -> None:
        """The environment is closed, and its jobs are over; a later run of the application may read the files."""
        with self._lock:
            kept = [*self._kept.values(), *self._released]
            self._kept, self._released = {}, []
            if not kept or keeps_files or state_of(self._session()) is not SessionState.RUNNING:
                return
            for each in kept:
                delete_dataset(self._filesystem, each.folder)

    @property
    def _filesystem(self) -> FileSystem:
        return FileSystem(self._session())

    def _codes(self, client: JobClient) -> Iterator[OperatorCode | KeyByCode]:
        registry = self._registry.of_job(client.job_id)
        for vertex in client.job_graph.vertices:
            for operator in vertex.operators:
                yield registry.resolve(operator.ref)

    def _note_reader(self, source: DatasetSource, client: JobClient) -> None:
        for kept in (*self._kept.values(), *self._released):
            if kept.folder == source.path:
                kept.readers.append(client)

    def _let_go(self) -> None:
        """Let go of what failed jobs have left, and delete what nobody reads any more."""
        failed = [dataset_id for dataset_id, kept in self._kept.items() if kept.has_failed]
        self._released += [self._kept.pop(dataset_id) for dataset_id in failed]
        deleted = [kept for kept in self._released if not kept.is_used]
        self._released = [kept for kept in self._released if kept not in deleted]
        for kept in deleted:
            delete_dataset(self._filesystem, kept.folder)
