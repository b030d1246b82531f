"""Short builders of splits, discoveries and requests of one source vertex."""

from __future__ import annotations

from flykka.actors.machines.effects import Tell
from flykka.actors.machines.sources.source_coordinator import SplitEnumerator
from flykka.actors.machines.sources.source_events import AttemptEnded, SubtaskReset
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint
from flykka.messages.tasks.source import AddSplits, FileSplit, NoMoreSplits, RequestSplits, SplitsDiscovered
from flykka.messages.wire.ids import ExecutionAttemptId, JobVertexId, OperatorId, SplitId, attempt_id
from tests.actors.machines.graph.graphs import JOB

VERTEX, SOURCE = JobVertexId("left"), OperatorId("left")


def file_split(name: str) -> FileSplit:
    return FileSplit(split_id=SplitId(name), path=f"/in/{name}", start_row=0, rows=1)


def attempt_of(subtask: int, number: int = 0, vertex: JobVertexId = VERTEX) -> ExecutionAttemptId:
    return attempt_id(JOB, vertex, subtask, number)


def discovered_splits(
    names: str, *, finished: bool = False, begun_at: str = "", position: str | None = None
) -> SplitsDiscovered:
    """Return a discovery that starts at position `begun_at`; its new position is the names of all splits discovered so
    far.
    """
    reached = begun_at + names if position is None else position
    return SplitsDiscovered(
        operator_id=SOURCE,
        splits=tuple(file_split(name) for name in names),
        finished=finished,
        begun_at=begun_at.encode(),
        position=reached.encode(),
    )


def request_splits(subtask: int, count: int = 1, attempt: int = 0) -> RequestSplits:
    return RequestSplits(attempt=attempt_of(subtask, attempt), operator_id=SOURCE, count=count)


def assigns(subtask: int, names: str, *numbers: int, attempt: int = 0) -> Tell[ExecutionAttemptId]:
    """Return the assignment of splits. Without `numbers` splits are named in assignment order, starting with `a`."""
    return Tell(
        to=attempt_of(subtask, attempt),
        message=AddSplits(
            attempt=attempt_of(subtask, attempt),
            operator_id=SOURCE,
            splits=tuple(file_split(name) for name in names),
            numbers=numbers or tuple(ord(name) - ord("a") for name in names),
        ),
    )


def no_more(subtask: int, attempt: int = 0) -> Tell[ExecutionAttemptId]:
    message = NoMoreSplits(attempt=attempt_of(subtask, attempt), operator_id=SOURCE)
    return Tell(to=message.attempt, message=message)


def attempt_ended(subtask: int, attempt: int = 0) -> AttemptEnded:
    return AttemptEnded(attempt=attempt_of(subtask, attempt))


def reset(subtask: int, checkpoint_id: int | None) -> SubtaskReset:
    return SubtaskReset(vertex_id=VERTEX, subtask=subtask, checkpoint_id=checkpoint_id)


def settled(subtask: int, checkpoint_id: int, vertex: JobVertexId = VERTEX) -> AcknowledgeCheckpoint:
    return AcknowledgeCheckpoint(
        job_id=JOB, attempt=attempt_of(subtask, vertex=vertex), checkpoint_id=checkpoint_id, state=None
    )


def enumerator(parallelism: int = 2) -> SplitEnumerator:
    return SplitEnumerator(JOB, VERTEX, SOURCE, parallelism=parallelism)
