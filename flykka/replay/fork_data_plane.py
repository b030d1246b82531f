"""What forks of recorded jobs have for a data plane and a storage: nothing is moved, read, written or deleted.

A fork must not touch what the recorded run has left behind. So of the blocking work that was not recorded, that which
only asks the data plane is done, for this one answers by itself; that which goes to a storage is answered as if it had
been done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from flykka.actors.checkpoint_coordinator.master_hooks import MasterTriggerRestoreHook
from flykka.actors.machines.checkpoint.id_counter import DRAWN_AT_ONCE
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.control.checkpoint_coordination import CheckpointIds, CheckpointIdsDrawn, MetadataWritten
from flykka.messages.control.high_availability import SubmittedJobGraph
from flykka.messages.control.job_control import JobEnded, JobGraphAccepted
from flykka.messages.control.job_manager import JobMasterReleased, JobPutAway
from flykka.messages.graph.job_graph import JobGraph, JobVertex, Operator
from flykka.messages.monitoring.blocking_work import BlockingWork
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.messages.wire.ids import JobId, OperatorId, ResultPartitionId
from flykka.replay.recorded_data_plane import RecordedDataPlane
from flykka.runtime.trace.reader import Trace

_NOTHING_TO_RETURN = frozenset({"dispose", "delete_job", "discard_savepoint", "put_result"})
_ASKS_THE_DATA_PLANE = frozenset({"look", "finalize_vertices", "end_attempts", "release_job", "release_partitions"})

ENGINE_CALLS = frozenset(
    (
        "open",
        "read_splits",
        "process",
        "update_state",
        "advance_watermark",
        "note_state",
        "prepare_commit",
        "write_snapshot",
        "discard_snapshot",
        "hold",
        "write_in_flight",
        "commit",
        "close_chain",
        "progress",
    )
)
"""What bridges ask their engines for."""


class ForkDataPlane(RecordedDataPlane):
    """Answers as the recorded one did where it can, and else as one that has nothing to do."""

    def __init__(self, trace: Trace, *, replays_bridges: bool = True) -> None:
        super().__init__(replays_bridges=replays_bridges)
        self._found: dict[tuple[OperatorId, bytes], SplitsDiscovered] | None = None
        self._trace = trace

    def check(self, job_graph: JobGraph) -> None:
        """It fits."""

    def master_hooks(self, job_id: JobId) -> Sequence[MasterTriggerRestoreHook]:
        """There is no user code here."""
        return ()

    def split_discovery(self, job_id: JobId, operator: Operator) -> RecordedDiscovery:
        """Finds what was found."""
        return RecordedDiscovery(self, operator.operator_id)

    def finalize_vertices(self, job_id: JobId, vertices: Sequence[JobVertex]) -> None:
        """There is nothing to be done."""

    def end_attempts(self, job_id: JobId) -> None:
        """No attempt works here."""

    def release_partitions(self, job_id: JobId, partition_ids: Sequence[ResultPartitionId]) -> None:
        """There is nothing to be freed."""

    def release_job(self, job_id: JobId, *, keep_staged: bool = False) -> None:
        """There is nothing to be freed."""

    def found(self, operator_id: OperatorId, position: bytes) -> SplitsDiscovered | None:
        """What was found at a source from a position on, where that was looked for."""
        if self._found is None:
            looks = (turn.message for turn in self._trace)
            found = [each for each in looks if isinstance(each, SplitsDiscovered)]
            self._found = {(each.operator_id, each.begun_at): each for each in found}
        return self._found.get((operator_id, position))


class RecordedDiscovery:
    """The look at a source: what was found then, and behind the last recorded position nothing."""

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
    """What blocking work of a job's actors returns in a fork."""
    arguments = work.arguments
    if work.function in _ASKS_THE_DATA_PLANE | ENGINE_CALLS:
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
            return JobPutAway(end=end)
        case "initialize_savepoint", (str() as directory, str() as name):
            return f"{directory}/{name}"
        case "trigger", _:
            return ()
        case "restore" | "close", _:
            return None
        case _:
            raise NotImplementedError(f"a fork does not know what {work.function} would have come to")
