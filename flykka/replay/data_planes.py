"""The data planes of replays and forks: nothing is moved, read, written or deleted.

In a replay the actors of a job ask the data plane for nothing in their turns; what it did for them on the I/O pool came
back as messages, which the trace delivers. So did what the engines of the attempts have answered to their bridges.

A fork must not touch what the recorded run has left behind. So of the blocking work that was not recorded, only what
asks for splits and what engines do is done, for those of a fork answer by themselves; all other work is answered as if
it had been done.
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
from flykka.messages.monitoring.blocking_work import BlockingWork
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
"""The calls of bridges to their engines."""


class Recorded:
    """Stands for an object that reaches outside: its methods can be begun as blocking work, and never be called."""

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("_"):
            raise AttributeError(name)

        def refuse(*_: object, **__: object) -> NoReturn:
            raise AssertionError(f"an actor has called {name} in its own turn, which reaches outside: no replay can")

        # What blocking work is begun with is recorded by its name.
        refuse.__name__ = name
        return refuse


class RecordedDataPlane(Recorded):
    """Stands for a `DataPlane` with nothing behind it. What would move rows or look at files cannot be called."""

    def bridge_props(self, descriptor: TaskDeploymentDescriptor) -> Props:
        return Props(Bridge, descriptor, self)

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> EmptyEngine:
        """An engine that is never asked for work: its answers are in the trace."""
        return EmptyEngine(descriptor)


class ForkDataPlane(RecordedDataPlane):
    """Finds the splits that the recorded one has found."""

    def __init__(self, trace: TraceReader) -> None:
        self._found: dict[tuple[OperatorId, bytes], SplitsDiscovered] | None = None
        self._trace = trace

    def split_discovery(self, job_id: JobId, operator: Operator) -> RecordedDiscovery:
        return RecordedDiscovery(self, operator.operator_id)

    def found(self, operator_id: OperatorId, position: bytes) -> SplitsDiscovered | None:
        """The splits that were found at a source from a position on, where that was looked for."""
        if self._found is None:
            looks = (turn.message for turn in self._trace)
            found = [each for each in looks if isinstance(each, SplitsDiscovered)]
            self._found = {(each.operator_id, each.begun_at): each for each in found}
        return self._found.get((operator_id, position))


class RecordedDiscovery:
    """The look at a source: what was found then, and behind the last recorded position nothing."""

    changed: Callable[[], bool] | None = None

    def __init__(self, data_plane: ForkDataPlane, operator_id: OperatorId) -> None:
        self._data_plane = data_plane
        self._operator_id = operator_id
        self.interval_ms: int | None = None

    def discover(self, position: bytes) -> SplitsDiscovered:
        """The splits behind `position`."""
        found = self._data_plane.found(self._operator_id, position)
        if found is None:
            return SplitsDiscovered(
                operator_id=self._operator_id, splits=(), finished=True, begun_at=position, position=position
            )
        self.interval_ms = found.interval_ms
        return replace(found, interval_ms=None)


def unrecorded_work(work: BlockingWork, do: Callable[[], object]) -> object:
    """The result that blocking work of a job's actors has in a fork."""
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
            # The user's code is not there: its coordinator has nothing to say, and no state.
            is_checkpoint = bool(calls) and isinstance(calls[-1], CheckpointOperatorCoordinator)
            return CoordinatorAnswer(state=b"" if is_checkpoint else None)
        case "update_aggregates", _:
            return GlobalAggregatesUpdated(results=())
        case _:
            raise NotImplementedError(f"a fork does not know what {work.function} would have come to")
