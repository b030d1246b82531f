"""The data plane of a replay: there is none, and whatever it had to say is in the trace.

The actors of a job ask the data plane for nothing in their turns; what it did for them on the I/O pool came back as
messages, which the trace delivers. So did what the engines of the attempts have answered to their bridges. Bridges that
a trace has of another class are not replayed: what these have said is in the trace as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
from flykka.actors.data_plane import SplitDiscovery
from flykka.actors.task.bridge import Bridge
from flykka.actors.task.empty_engine import EmptyEngine
from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.tasks.bridge import EngineFailed
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobId, ResultPartitionId
from flykka.runtime.props import Props
from flykka.runtime.trace.replay.system import BOUNDARY


class RecordedDataPlane:
    """Implements the port with nothing behind it. What would move rows or look at files cannot be called."""

    def __init__(self, *, replays_bridges: bool = True) -> None:
        self._bridges = Bridge if replays_bridges else None

    def check(self, job_graph: JobGraph) -> None:
        """Was done before the job was recorded as accepted."""
        _refuse("check")

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        """The hooks are the user's code, which is not here."""
        _refuse("master_hooks")

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        """A bridge; or what stands for one, and takes none of its turns."""
        return BOUNDARY if self._bridges is None else Props(self._bridges, descriptor, self)

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> EmptyEngine:
        """An engine that is never asked for work: its answers are in the trace."""
        return EmptyEngine(descriptor)

    def split_discovery(self, job_id: JobId, operator: Operator) -> SplitDiscovery:
        """What was found is in the trace."""
        _refuse("split_discovery")

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        """Was done while it was recorded."""
        _refuse("finalize_vertices")

    def end_attempts(self, job_id: JobId) -> None:
        """No attempt works here."""
        _refuse("end_attempts")

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        """Was done while it was recorded."""
        _refuse("release_partitions")

    def release_job(self, job_id: JobId, *, keep_staged: bool = False) -> None:
        """Was done while it was recorded."""
        _refuse("release_job")


def _refuse(call: str) -> NoReturn:
    raise AssertionError(f"an actor has called {call} of the data plane in its own turn: that cannot be replayed")
