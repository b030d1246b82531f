"""JobQueries: all queries about the jobs of a cluster, each with one name and one result type.

`RestClusterClient` offers some of the queries over HTTP, but not with these types: its JSON has Flink's format, from
which these types cannot be restored.
"""

from __future__ import annotations

from typing import Protocol

from flykka.diagnosis.job_diagnosis import JobDiagnosis
from flykka.messages.checkpointing.statistics import (
    CheckpointStatistics,
    CheckpointStatsSnapshot,
    SubtaskCheckpointStatistics,
)
from flykka.messages.control.rescaling import RescalesSnapshot
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.explanation import SlotsExplained
from flykka.messages.monitoring.job_details import (
    JobDetails,
    JobOverview,
    JobVertexDetails,
    ProcessEnvironment,
    SubtaskDetails,
)
from flykka.messages.wire.ids import JobId, JobVertexId


class JobQueries(Protocol):
    """Implemented by the JobManager (`JobManagerGateway`) and for archives (`HistoryGateway`).

    Every call may block, and raises an error if there is no reply or no such job.
    """

    def jobs(self) -> tuple[JobOverview, ...]:
        """Return the running jobs and recently ended jobs."""

    def details(self, job_id: JobId, checkpoints: int = 0) -> JobDetails:
        """Return the current state of a job, with at most `checkpoints` of its last checkpoints."""

    def graph(self, job_id: JobId) -> JobGraph: ...

    def vertex(self, job_id: JobId, vertex_id: JobVertexId) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]: ...

    def checkpoints(self, job_id: JobId) -> CheckpointStatsSnapshot: ...

    def checkpoint(
        self, job_id: JobId, checkpoint_id: int
    ) -> tuple[CheckpointStatistics, tuple[SubtaskCheckpointStatistics, ...]]:
        """Return a checkpoint, and the subtasks of it that are retained."""

    def rescales(self, job_id: JobId) -> RescalesSnapshot: ...


class ClusterQueries(JobQueries, Protocol):
    """The queries of the REST interface, implemented by `RestfulGateway` and `HistoryGateway`."""

    @property
    def history_of(self) -> str | None:
        """The directory of the archives, or None for a cluster."""

    def slots(self) -> SlotsExplained: ...

    def environment(self, job_id: JobId) -> ProcessEnvironment: ...

    def diagnosis(self, job_id: JobId, time_limit: float) -> JobDiagnosis:
        """Diagnose the activity of a job, or its standstill. Each actor has `time_limit` seconds to reply."""
