"""All actors of a job's cluster on a seeded system in virtual time. Instead of rows, the data plane moves names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flykka.actors.cluster.entrypoint import ConfiguredJobManager, ConfiguredResourceManager
from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.actors.machines.slots.task_manager_tracker import WorkerCounts
from flykka.actors.task_manager.actor import ConfiguredTaskManagers
from flykka.messages.attempt.answers import EngineFailed
from flykka.messages.control.job import (
    ExecutionStateChanged,
    JobStatus,
    JobStatusChanged,
    StopJob,
    SubmitJob,
    TriggerSavepoint,
)
from flykka.messages.graph.job_graph import CheckpointingSettings, JobGraph, Operator, ShipStrategy
from flykka.messages.tasks.source import FileSplit, SplitsDiscovered
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobId, OperatorId, SplitId
from flykka.messages.wire.message import Message
from flykka.runtime.ref import ActorRef
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.cluster_builder import ClusterBuilder
from tests.actors.data_plane import NoData
from tests.actors.engines import NamesEngine, Sink
from tests.actors.machines.graph.graphs import HEARTBEAT_INTERVAL_MS, HEARTBEAT_TIMEOUT_MS, graph_of, vertex
from tests.actors.peer import Utter

FILES = 6
ALL_FILES = [f"file-{number}" for number in range(FILES)]
LOOK_MS = 250
"""The discovery interval in milliseconds. Every fourth discovery coincides with a checkpoint, so that a split
discovered at a barrier is tested.
"""


def seeds(count: int) -> list[pytest.ParameterSet]:
    """Return parameters for a test of a whole cluster. Seeds after the first are marked `long`; simulations use
    thousands of seeds.
    """
    return [pytest.param(seed, marks=[pytest.mark.long] if seed else []) for seed in range(count)]


class OneFileAtATime:
    """A folder in which every discovery finds one more file."""

    interval_ms: int | None = LOOK_MS
    changed: Callable[[], bool] | None = None

    def __init__(self, operator_id: OperatorId) -> None:
        self._operator_id = operator_id

    def discover(self, position: bytes) -> SplitsDiscovered:
        found = int(position or b"0")
        name = SplitId(f"file-{found}")
        split = FileSplit(split_id=name, path=f"/in/{name}", start_row=0, rows=1)
        return SplitsDiscovered(
            operator_id=self._operator_id,
            splits=(split,),
            finished=found + 1 == FILES,
            begun_at=position,
            position=b"%d" % (found + 1),
        )


class Names(NoData):
    """A data plane whose rows are the names of the splits that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = Sink()

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> NamesEngine:
        return NamesEngine(descriptor, self.sink)

    def split_discovery(self, job_id: JobId, operator: Operator) -> OneFileAtATime:
        return OneFileAtATime(operator.operator_id)


class WholeCluster(ClusterBuilder):
    """A cluster with a client and, by default, two TaskManagers with two slots each."""

    def __init__(
        self,
        system: SeededSystem,
        folder: Path | str,
        data_plane: Names | None = None,
        network: NetworkSettings | None = None,
        *,
        slots: int = 2,
    ) -> None:
        super().__init__(system)
        self.data_plane = data_plane or Names()
        self.checkpointing: dict[str, Any] = {}

        task_managers = ConfiguredTaskManagers(slots=slots, data_plane=self.data_plane, network=network)
        resource_manager = ConfiguredResourceManager(
            workers=WorkerCounts(configured=2, slots=slots),
            task_manager_props=task_managers,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS,
        )
        job_manager = ConfiguredJobManager(data_plane=self.data_plane)
        self.start_entrypoint(resource_manager, job_manager)
        self.client = self.probe("client")
        self.folder = folder

    def submit(
        self,
        name: str = "job",
        parallelism: int = 2,
        restore_path: str | None = None,
        ship_strategy: ShipStrategy = ShipStrategy.HASH,
        **changed: Any,
    ) -> None:
        graph = self.graph(name, parallelism, ship_strategy, **changed)
        self._ask(SubmitJob(job_graph=graph, client=self.client.ref, restore_path=restore_path))

    def graph(
        self, name: str = "job", parallelism: int = 2, ship_strategy: ShipStrategy = ShipStrategy.HASH, **changed: Any
    ) -> JobGraph:
        """Return a job of a source and a sink, by default with one checkpoint per second."""
        graph = graph_of(
            vertex("source", parallelism, outputs=1),
            vertex("sink", parallelism, reads=("source",), ship_strategy=ship_strategy),
        )
        settings = {"interval_ms": 1_000, **self.checkpointing}
        checkpointing = CheckpointingSettings(directory=str(self.folder), **settings)
        return replace(graph, job_id=JobId(name), checkpointing=checkpointing, **changed)

    def stop(self, name: str = "job", savepoints: Path | str | None = None) -> None:
        directory = None if savepoints is None else str(savepoints)
        self._ask(StopJob(job_id=JobId(name), client=self.client.ref, savepoint_directory=directory))

    def trigger_savepoint(self, savepoints: Path | str, name: str = "job") -> None:
        wanted = TriggerSavepoint(job_id=JobId(name), client=self.client.ref, savepoint_directory=str(savepoints))
        self._ask(wanted)

    @property
    def resource_manager(self) -> ActorRef:
        return self.find("resource-manager")

    @property
    def job_manager(self) -> ActorRef:
        return self.find("job-manager")

    def _ask(self, message: Message) -> None:
        self.client.ref.tell(Utter(receiver=self.job_manager, message=message))

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.system.advance(1_000)

    def statuses(self) -> list[JobStatus]:
        return [changed.status for changed in self.client.received(JobStatusChanged)]

    def attempt_numbers(self) -> dict[str, int]:
        attempts = [
            str(changed.attempt).removeprefix("job_").rsplit("_", 1)
            for changed in self.client.received(ExecutionStateChanged)
        ]
        return {name: max(int(number) for each, number in attempts if each == name) for name, _ in attempts}


def is_a(kind: type[Message]) -> Callable[[ActorRef, Message], bool]:
    """Return a breakpoint before any actor handles a message of this class."""
    return lambda _recipient, message: isinstance(message, kind)
