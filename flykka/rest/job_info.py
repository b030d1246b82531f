"""JobInfo: what handlers ask about jobs. A cluster answers (`RestfulGateway`), or archives do (`HistoryGateway`)."""

from __future__ import annotations

from typing import Protocol

from flykka.diagnosis.job_diagnosis import JobDiagnosis
from flykka.messages.checkpointing.statistics import CheckpointStatistics, SubtaskCheckpointStatistics
from flykka.messages.control.rescaling import RescalesSnapshot
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.job_details import ProcessEnvironment
from flykka.messages.wire.ids import JobId
from flykka.metrics.collection import Gateway


class JobInfo(Gateway, Protocol):
    """Every call may block. What is not there raises `RestError`."""

    @property
    def history_of(self) -> str | None:
        """The directory whose archives answer; None for a cluster."""

    def graph(self, job_id: JobId) -> JobGraph:
        """The plan and the configuration of a job."""

    def environment(self, job_id: JobId) -> ProcessEnvironment:
        """The environment of the process that a job runs in, or has run in."""

    def checkpoint(
        self, job_id: JobId, checkpoint_id: int
    ) -> tuple[CheckpointStatistics, tuple[SubtaskCheckpointStatistics, ...]]:
        """A checkpoint, and its subtasks as far as they are kept."""

    def rescales(self, job_id: JobId) -> RescalesSnapshot:
        """The last rescales of a job."""

    def diagnosis(self, job_id: JobId, time_limit: float) -> JobDiagnosis:
        """Tell why a job does not go on, or what it does; who is asked has so many seconds."""
