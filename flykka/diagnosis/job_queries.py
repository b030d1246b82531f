"""JobQueries: every query about the jobs of a cluster, by one name and with one type of answer.

`RestClusterClient` offers some of them by HTTP, but not as these types: in JSON they have Flink's format, from which
these types cannot be restored.
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
    """Answered by the JobManager (`JobManagerGateway`) or from archives (`HistoryGateway`).

    Every call may block, and raises if there is no answer or no such job.
    """

    def jobs(self) -> tuple[JobOverview, ...]:
        """The jobs that run, and the last that have ended."""

    def details(self, job_id: JobId, checkpoints: int = 0) -> JobDetails:
        """The current state of a job, with its last checkpoints, at most `checkpoints`."""

    def graph(self, job_id: JobId) -> JobGraph: ...

    def vertex(self, job_id: JobId, vertex_id: JobVertexId) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]: ...

    def checkpoints(self, job_id: JobId) -> CheckpointStatsSnapshot: ...

    def checkpoint(
        self, job_id: JobId, checkpoint_id: int
    ) -> tuple[CheckpointStatistics, tuple[SubtaskCheckpointStatistics, ...]]:
        """A checkpoint, and its subtasks as far as they are retained."""

    def rescales(self, job_id: JobId) -> RescalesSnapshot: ...


class ClusterQueries(JobQueries, Protocol):
    """The queries of the REST interface. `RestfulGateway` answers for a cluster, `HistoryGateway` for a history."""

    @property
    def history_of(self) -> str | None:
        """The directory whose archives answer; `None` for a cluster."""

    def slots(self) -> SlotsExplained: ...

    def environment(self, job_id: JobId) -> ProcessEnvironment:
        """The environment of the process in which a job runs or has run."""

    def diagnosis(self, job_id: JobId, time_limit: float) -> JobDiagnosis:
        """The state of a job, or the reason why it makes no progress; each actor has `time_limit` seconds to answer."""
