"""HistoryGateway: serves queries about ended jobs from their archives (Flink's HistoryServer)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.errors import CheckpointFormatError, CheckpointStorageError, CheckpointVersionError
from flykka.diagnosis.job_diagnosis import JobDiagnosis, diagnose
from flykka.diagnosis.reports import ActorReports
from flykka.errors import ClusterError
from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsSnapshot,
    SubtaskCheckpointStatistics,
)
from flykka.messages.control.rescaling import RescalesSnapshot
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.explanation import SlotsExplained
from flykka.messages.monitoring.job_details import (
    ArchivedJob,
    JobDetails,
    JobOverview,
    JobVertexDetails,
    ProcessEnvironment,
    SubtaskDetails,
)
from flykka.messages.wire.ids import JobId, JobVertexId
from flykka.rest.errors import RestError
from flykka.runtime.secrets import masked_uri

logger = logging.getLogger("flykka")

REFRESH_SECONDS = 3.0
"""The minimum number of seconds between two listings of the archives."""

_OPENED = 32
"""The number of archives kept in memory. Only the overviews of all others are kept."""


class HistoryGateway:
    """Serves the archives in a directory, including those that are added later."""

    def __init__(self, directory: str, now_ms: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """`now_ms` returns the time of day, `clock` monotonic seconds.

        Raises:
            ClusterError: there is no such directory, or it cannot be accessed.
        """
        self.history_of = masked_uri(directory)
        """The directory, without credentials."""
        self.now_ms = now_ms
        self._storage = CheckpointStorage(directory)
        try:
            is_there = self._storage.exists(directory)
        except Exception as refused:  # noqa: BLE001 - libraries of object stores have errors of their own.
            raise ClusterError(f"the folder {self.history_of!r} cannot be read: {refused}") from None
        if not is_there:
            raise ClusterError(f"there is no folder {self.history_of!r}")
        self._clock = clock
        self._lock = threading.Lock()
        self._listed_at: float | None = None
        self._jobs: dict[str, JobOverview | None] = {}
        """The overviews of jobs by archive path, None for an unreadable archive."""
        self._printed: set[str] = set()
        self._read = lru_cache(maxsize=_OPENED)(self._storage.read_archive)

    def jobs(self) -> tuple[JobOverview, ...]:
        """Return the ended jobs, ordered by end time."""
        return tuple(job for _, job in self._by_end().values())

    def details(self, job_id: JobId, checkpoints: int = 0) -> JobDetails:
        details = self._archive(job_id).details
        return replace(details, checkpoints=details.checkpoints[-checkpoints:] if checkpoints else ())

    def graph(self, job_id: JobId) -> JobGraph:
        return self._archive(job_id).job_graph

    def environment(self, job_id: JobId) -> ProcessEnvironment:
        """Return the environment of a job's process. It is empty if an older version wrote the archive."""
        return self._archive(job_id).environment

    def vertex(self, job_id: JobId, vertex_id: JobVertexId) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]:
        for each in self._archive(job_id).vertices:
            if each.vertex is not None and each.vertex.vertex_id == vertex_id:
                return each.vertex, each.subtasks
        raise RestError(404, f"job {job_id} has no vertex {vertex_id}")

    def checkpoints(self, job_id: JobId) -> CheckpointStatsSnapshot:
        return self._archive(job_id).checkpoints

    def checkpoint(
        self, job_id: JobId, checkpoint_id: int
    ) -> tuple[CheckpointStatistics, tuple[SubtaskCheckpointStatistics, ...]]:
        archived = self._archive(job_id)
        stats = archived.checkpoints
        for details in archived.checkpoint_details:
            if details.checkpoint is not None and details.checkpoint.checkpoint_id == checkpoint_id:
                return details.checkpoint, details.subtasks
        for checkpoint in (*stats.history, stats.latest_completed, stats.latest_savepoint, stats.latest_failed):
            if checkpoint is not None and checkpoint.checkpoint_id == checkpoint_id:
                return checkpoint, ()
        raise RestError(404, f"checkpoint {checkpoint_id} of job {job_id} is not in the history")

    def rescales(self, job_id: JobId) -> RescalesSnapshot:
        """Return the last rescales of a job. There are none if an older version wrote the archive."""
        return self._archive(job_id).rescales or RescalesSnapshot(job_id=job_id)

    def slots(self) -> SlotsExplained:
        return SlotsExplained(now_ms=self.now_ms(), task_managers=(), slots=0, free=0, pending_requests=0)

    def diagnosis(self, job_id: JobId, time_limit: float) -> JobDiagnosis:
        return diagnose(ActorReports(details=self._archive(job_id).details, now_ms=self.now_ms()))

    def _archive(self, job_id: JobId) -> ArchivedJob:
        entry = self._by_end().get(job_id)
        if entry is None:
            raise RestError(404, f"Job {job_id} not found")
        try:
            return self._read(entry[0])
        except CheckpointStorageError as gone:
            raise RestError(404, f"Job {job_id} not found: {gone}") from None

    def _by_end(self) -> dict[JobId, tuple[str, JobOverview]]:
        """Return the archives by job, ordered by end time. If a job has several archives, the last one counts."""
        with self._lock:
            now = self._clock()
            if self._listed_at is None or now - self._listed_at >= REFRESH_SECONDS:
                self._list()
                self._listed_at = now
            entries = [(path, job) for path, job in self._jobs.items() if job is not None]
        entries.sort(key=lambda each: (each[1].ended_ms or 0, each[0]))
        return {job.job_id: (path, job) for path, job in entries}

    def _list(self) -> None:
        try:
            there = self._storage.archives()
        except Exception as refused:  # noqa: BLE001 - as above.
            raise RestError(503, f"the archives below {self.history_of!r} cannot be listed: {refused}") from None
        self._jobs = {path: self._jobs[path] for path in there if path in self._jobs}
        for path in there:
            if path not in self._jobs:
                self._open(path)

    def _open(self, path: str) -> None:
        try:
            self._jobs[path] = self._storage.read_archive(path).overview
        except CheckpointStorageError as unreadable:
            if path not in self._printed:
                logger.warning("an archive is skipped: %s", unreadable)
                self._printed.add(path)
            if isinstance(unreadable, CheckpointFormatError | CheckpointVersionError):
                # Reading the file again would not help.
                self._jobs[path] = None
