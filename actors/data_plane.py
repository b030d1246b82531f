"""The port to the data: what the actors ask of the side that holds the rows.

Spark's side implements it in `spark_bridge`; stand-ins in the tests of the actors do without Spark. Nothing in here
blocks an actor: what may block is a plain call that the shells run through `context.pipe_to_self`. And nothing in here
is asked for a decision in an actor's turn: what decides comes as a message, so that a recorded turn can be repeated
where there is no data plane. Only `bridge_props` is called in a turn, by a Task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flykka.actors.master_hooks import MasterTriggerRestoreHook
from flykka.messages.ids import JobId, ResultPartitionId
from flykka.messages.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.source import SplitsDiscovered
from flykka.messages.task import TaskDeploymentDescriptor
from flykka.runtime.props import Props


class SplitDiscovery(Protocol):
    """Looks for the splits of one source. One object per source operator and job; used by one call at a time."""

    interval_ms: int | None
    """How long to wait between two looks; None where one look finds everything."""

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The splits behind `position` (empty: all), in the order in which they are to be read. May block.

        A position is the discovery's own and goes into checkpoints: it is small, and another object understands it.
        Raises whatever the storage raises; the job fails with it.
        """


class DataPlane(Protocol):
    """What a job runtime needs to move rows without seeing one."""

    def check(self, job_graph: JobGraph) -> None:
        """Look before a job runs whether it can. May block.

        Raises `UnboundOperatorError`, naming the operators, where the graph does not fit the registered code, and what
        the data plane itself has against it, such as a sink that cannot write where it is to; the job is refused.
        """

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        """The user's code that is run beside the coordinator of a job's checkpoints. May block."""

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        """The props of an execution attempt's bridge actor; it is spawned as the Task's child and tells its parent."""

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        """The discovery of a source operator. May block, and raises as `SplitDiscovery.discover`."""

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        """Do what is to be done once when all tasks of a job have finished, before it is FINISHED. May block.

        Raises whatever the storage raises; the job fails with it, and where it is restarted this is called again.
        """

    def end_attempts(self, job_id: JobId) -> None:
        """End what still works for the job, killed attempts on their way out included. May block."""

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        """Free what was kept in BLOCKING partitions of a job, whether anything was or not. May block."""

    def release_job(self, job_id: JobId, *, keep_staged: bool = False) -> None:
        """Free everything that is left of the job in the data plane. May block; may be called again.

        `keep_staged`: what sinks have staged stays, because a retained checkpoint refers to it.
        """
