"""The data planes of replays and forks: no rows are moved, and no files are read, written or deleted.

In a replay the actors of a job make no calls to the data plane in their turns. Results of work on the I/O pool were
messages, as were the replies of the engines to their bridges, and the trace contains them.

A fork must not change files of the recorded run. Of the blocking work that was not recorded, it executes only the
discovery of splits and the work of engines, with replacements. All other work is answered as if it had succeeded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, get_args

from flykka.actors.machines.checkpoint.id_counter import DRAWN_AT_ONCE
from flykka.actors.task.bridge import Bridge
from flykka.actors.task.empty_engine import EmptyEngine
from flykka.messages.attempt.answers import EngineFailed
from flykka.messages.attempt.commands import Work
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import CheckpointIds, CheckpointIdsDrawn, MetadataWritten
from flykka.messages.control.high_availability import SubmittedJobGraph
from flykka.messages.control.job_control import JobEnded, JobGraphAccepted
from flykka.messages.control.job_manager import JobArchived, JobMasterReleased
from flykka.messages.graph.job_graph import JobGraph, Operator
from flykka.messages.kernel.blocking_work import BlockingWork
from flykka.messages.tasks.operator_event import (
    CheckpointOperatorCoordinator,
    CoordinatorAnswer,
    GlobalAggregatesUpdated,
)
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.ids import JobId, OperatorId
from flykka.runtime.props import Props
from flykka.runtime.trace.file.reader import TraceReader

_NOTHING_TO_RETURN = frozenset(
    (
        "close",
        "delete_job",
        "discard_savepoint",
        "dispose",
        "end_attempts",
        "finalize_vertices",
        "label_failure",
        "put_result",
        "release_job",
        "release_partitions",
        "restore",
    )
)

ENGINE_CALLS = frozenset({command.method for command in get_args(Work)} | {"progress"})


class Recorded:
    """Replaces an object with external effects. Its methods can be passed as blocking work, but not called."""

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("_"):
            raise AttributeError(name)

        def refuse(*_: object, **__: object) -> NoReturn:
            raise AssertionError(f"an actor has called {name} in its own turn, but a replay cannot reach the outside")

        # A record of blocking work contains the function's name.
        refuse.__name__ = name
        return refuse


class RecordedDataPlane(Recorded):
    """Replaces a `DataPlane`. Methods that would move rows or read files cannot be called."""

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(Bridge, descriptor, self)

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> EmptyEngine:
        """Create an engine that gets no work, because its replies are in the trace."""
        return EmptyEngine(descriptor)


class ForkDataPlane(RecordedDataPlane):
    def __init__(self, trace: TraceReader) -> None:
        self._found: dict[tuple[OperatorId, bytes], SplitsDiscovered] | None = None
        self._trace = trace

    def split_discovery(self, job_id: JobId, operator: Operator) -> RecordedDiscovery:
        return RecordedDiscovery(self, operator.operator_id)

    def found(self, operator_id: OperatorId, position: bytes) -> SplitsDiscovered | None:
        if self._found is None:
            looks = (turn.message for turn in self._trace)
            discoveries = [each for each in looks if isinstance(each, SplitsDiscovered)]
            self._found = {(each.operator_id, each.begun_at): each for each in discoveries}
        return self._found.get((operator_id, position))


class RecordedDiscovery:
    """Discovers the recorded splits of a source, and no splits after the last recorded position."""

    changed: Callable[[], bool] | None = None

    def __init__(self, data_plane: ForkDataPlane, operator_id: OperatorId) -> None:
        self._data_plane = data_plane
        self._operator_id = operator_id
        self.interval_ms: int | None = None

    def discover(self, position: bytes) -> SplitsDiscovered:
        discovery = self._data_plane.found(self._operator_id, position)
        if discovery is None:
            return SplitsDiscovered(
                operator_id=self._operator_id, splits=(), finished=True, begun_at=position, position=position
            )
        self.interval_ms = discovery.interval_ms
        return replace(discovery, interval_ms=None)


def unrecorded_work(work: BlockingWork, do: Callable[[], object]) -> object:
    arguments = work.arguments
    if work.function == "discover" or work.function in ENGINE_CALLS:
        return do()
    if work.function in _NOTHING_TO_RETURN:
        return None
    match work.function, arguments:
        case "complete" | "write", (CompletedCheckpoint() as checkpoint, str() | None as target, *draws):
            path = f"fork/chk-{checkpoint.checkpoint_id}" if target is None else target
            ids = CheckpointIds(first=draws[0], count=DRAWN_AT_ONCE) if draws and isinstance(draws[0], int) else None
            return MetadataWritten(checkpoint_id=checkpoint.checkpoint_id, path=path, ids=ids)
        case "draw_ids", (int() as first,):
            return CheckpointIdsDrawn(ids=CheckpointIds(first=first, count=DRAWN_AT_ONCE))
        case "accept_job", (_, _, _, SubmittedJobGraph() as submitted):
            return JobGraphAccepted(job_id=submitted.job_graph.job_id, starts=submitted.starts)
        case "begin_again", (_, _, _, SubmittedJobGraph() as submitted):
            return JobGraphAccepted(job_id=submitted.job_graph.job_id, starts=submitted.starts + 1)
        case "release_job_master", (_, _, JobGraph() as job_graph):
            return JobMasterReleased(job_id=job_graph.job_id)
        case "put_away_job" | "clean_up_job", (*_, JobEnded() as end):
            return JobArchived(end=end)
        case "initialize_savepoint", (str() as directory, str() as name, *_):
            return f"{directory}/{name}"
        case "trigger", _:
            return ()
        case "call_coordinator", ((*calls,),):
            # The coordinator's code is not available, so it sends no events and has no state.
            is_checkpoint = bool(calls) and isinstance(calls[-1], CheckpointOperatorCoordinator)
            return CoordinatorAnswer(state=b"" if is_checkpoint else None)
        case "update_aggregates", _:
            return GlobalAggregatesUpdated(results=())
        case _:
            raise NotImplementedError(f"a fork cannot know the result of {work.function}")
