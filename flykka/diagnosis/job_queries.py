"""JobQueries: every question about the jobs of a cluster, by one name and with one type of answer.

`RestClusterClient` asks some of them by HTTP, and is no third answer: in JSON they have Flink's shape, of which these
types cannot be made again.
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
        """A job as it stands now, with that many of its last checkpoints."""

    def graph(self, job_id: JobId) -> JobGraph:
        """The plan and the configuration of a job."""

    def vertex(self, job_id: JobId, vertex_id: JobVertexId) -> tuple[JobVertexDetails, tuple[SubtaskDetails, ...]]:
        """A vertex, and its subtasks."""

    def checkpoints(self, job_id: JobId) -> CheckpointStatsSnapshot:
        """The checkpoints of a job."""

    def checkpoint(
        self, job_id: JobId, checkpoint_id: int
    ) -> tuple[CheckpointStatistics, tuple[SubtaskCheckpointStatistics, ...]]:
        """A checkpoint, and its subtasks as far as they are kept."""

    def rescales(self, job_id: JobId) -> RescalesSnapshot:
        """The last rescales of a job."""


class ClusterQueries(JobQueries, Protocol):
    """The questions of the REST interface. `RestfulGateway` answers for a cluster, `HistoryGateway` for a history."""

    @property
    def history_of(self) -> str | None:
        """The directory whose archives answer; None for a cluster."""

    def slots(self) -> SlotsExplained:
        """The TaskManagers and their slots."""

    def environment(self, job_id: JobId) -> ProcessEnvironment:
        """The environment of the process that a job runs in, or has run in."""

    def diagnosis(self, job_id: JobId, time_limit: float) -> JobDiagnosis:
        """Tell why a job does not go on, or what it does; each actor that is asked has so many seconds."""
