"""The display of an environment: where it runs, its checkpoints, its jobs and the program so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from flykka.api.streams.summary import Displayed, Summary, program_facts
from flykka.messages.graph.job_graph import CheckpointingSettings
from flykka.runtime.durations import format_ms

if TYPE_CHECKING:
    from flykka.api.streams.program import Program
    from flykka.client.environment_jobs import EnvironmentJobs
    from flykka.cluster.cluster_settings import ClusterSettings
    from flykka.spark_bridge.program.prototype import SparkSession

TITLE = "StreamExecutionEnvironment"


class EnvironmentDisplay(Displayed, ABC):
    """The part of an environment that tells how it stands. It starts nothing and asks no actor."""

    checkpointing: CheckpointingSettings
    _closed: bool
    _running: EnvironmentJobs
    _settings: ClusterSettings

    @property
    @abstractmethod
    def spark(self) -> SparkSession:
        """The Spark session."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """The transformations defined since the last job."""

    @property
    def task_manager_budget(self) -> str:
        """The resources that each TaskManager has declared, in words; nothing where it has declared none."""
        return str(self._settings.resources)

    def _summary(self) -> Summary:
        if self._closed:
            return Summary(title=f"{TITLE}, closed", facts=(("next", "get_execution_environment(...) makes another"),))
        running = [f"{client.job_name!r} {client.status}" for client in self._running]
        facts = (
            ("Spark", f"{self.spark.version} on {self.spark.sparkContext.master}"),
            ("checkpoints", _checkpoints(self.checkpointing)),
            *([("TaskManager", self.task_manager_budget)] if self.task_manager_budget else []),
            ("jobs", ", ".join(running) or "none is running"),
            *program_facts(self.program),
        )
        return Summary(title=TITLE, facts=facts)


def _checkpoints(settings: CheckpointingSettings) -> str:
    where = f", in {settings.directory}" if settings.directory else ""
    if settings.interval_ms is None:
        return f"only a final one{where}; enable_checkpointing('10s') takes one every 10 s"
    return f"every {format_ms(settings.interval_ms)}{where}"
