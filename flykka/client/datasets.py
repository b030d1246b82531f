"""Cluster datasets: rows that one job caches for later jobs of its environment, by id (Flink's cache()).

A dataset is registered when the job that computes it is submitted. It is complete when that job has finished. It is
dropped if that job fails, if it is released, or if files are missing. Files are deleted when the jobs that read them
have ended.
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
    dataset_id: str
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRows:
    """The folder of the rows to read. `is_empty` is True if there are no rows."""

    folder: str
    is_empty: bool


@dataclass(slots=True, kw_only=True, eq=False)
class _CachedDataset:
    """A dataset that a job computes or has computed. Its files are listed when it is first read."""

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
    """The datasets of one environment. Thread-safe."""

    def __init__(self, session: Callable[[], SparkSession], registry: CodeRegistry) -> None:
        self._session = session
        self._registry = registry
        self._lock = RLock()
        self._kept: dict[str, _CachedDataset] = {}
        # Released datasets that are not deleted yet.
        self._released: list[_CachedDataset] = []

    def find(self, dataset_id: str) -> DatasetRows | None:
        """Return the rows for a job that reads them, or None if the job must compute them. May block.

        Raises:
            ProgramError: another job is still computing the rows.
        """
        with self._lock:
            self._drop_unused()
            dataset = self._kept.get(dataset_id)
            if dataset is None:
                return None
            if not dataset.producer.done():
                raise ProgramError(
                    f"the rows for cache() are still being computed by job {dataset.producer.job_name!r}: wait for its"
                    " end with wait() of its client before another job reads them"
                )
            files = complete_files(self._filesystem, dataset.folder)
            if files is None or files != (dataset.files or files):
                logger.warning("%s is incomplete: the rows of cache() are computed again", dataset.folder)
                self.release(dataset_id)
                return None
            dataset.files = files
            return DatasetRows(folder=dataset.folder, is_empty=not files)

    def belong_to(self, client: JobClient) -> None:
        with self._lock:
            for code in self._codes(client):
                if isinstance(code, SinkCode) and isinstance(code.sink, DatasetSink):
                    self.release(code.sink.dataset_id)
                    folder = code.sink.for_job(client.job_id).path
                    self._kept[code.sink.dataset_id] = _CachedDataset(folder=folder, producer=client)
                if isinstance(code, SourceCode) and isinstance(code.source, DatasetSource):
                    self._add_reader(code.source, client)

    def list(self) -> tuple[ClusterDataset, ...]:
        """Return the datasets that are complete or being computed, in order of submission."""
        with self._lock:
            self._drop_unused()
            return tuple(
                ClusterDataset(dataset_id=dataset_id, is_complete=dataset.is_complete)
                for dataset_id, dataset in self._kept.items()
            )

    def release(self, dataset_id: str) -> None:
        """Release the rows, so that the next job that needs them computes them again. May block."""
        with self._lock:
            if (dataset := self._kept.pop(dataset_id, None)) is not None:
                self._released.append(dataset)
            self._drop_unused()

    def close(self, *, keeps_files: bool) -> None:
        """Delete all files when the environment ends, unless a later run of the application may read them."""
        with self._lock:
            dataset = [*self._kept.values(), *self._released]
            self._kept, self._released = {}, []
            if not dataset or keeps_files or state_of(self._session()) is not SessionState.RUNNING:
                return
            for each in dataset:
                delete_dataset(self._filesystem, each.folder)

    @property
    def _filesystem(self) -> FileSystem:
        return FileSystem(self._session())

    def _codes(self, client: JobClient) -> Iterator[OperatorCode | KeyByCode]:
        registry = self._registry.of_job(client.job_id)
        for vertex in client.job_graph.vertices:
            for operator in vertex.operators:
                yield registry.resolve(operator.ref)

    def _add_reader(self, source: DatasetSource, client: JobClient) -> None:
        for dataset in (*self._kept.values(), *self._released):
            if dataset.folder == source.path:
                dataset.readers.append(client)

    def _drop_unused(self) -> None:
        failed = [dataset_id for dataset_id, dataset in self._kept.items() if dataset.has_failed]
        self._released += [self._kept.pop(dataset_id) for dataset_id in failed]
        deleted = [dataset for dataset in self._released if not dataset.is_used]
        self._released = [dataset for dataset in self._released if dataset not in deleted]
        for dataset in deleted:
            delete_dataset(self._filesystem, dataset.folder)
