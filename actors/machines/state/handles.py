"""Queries on snapshots: the state files to which they refer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorMetadata
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.state.handles import (
    COMMITTABLES,
    ExclusiveStateHandle,
    OperatorListState,
    OperatorSubtaskState,
    PendingFile,
    SharedStateHandle,
    StagedBatch,
    TaskStateSnapshot,
    WriterState,
)
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import OperatorId
from flykka.messages.wire.message import Value


def shared_state(snapshot: TaskStateSnapshot | None) -> Iterator[SharedStateHandle]:
    for operator in snapshot.operators if snapshot else ():
        yield from operator.shared


def exclusive_state(snapshot: TaskStateSnapshot | None) -> Iterator[ExclusiveStateHandle]:
    for operator in snapshot.operators if snapshot else ():
        yield from operator.exclusive


def with_shared_state(
    snapshot: TaskStateSnapshot | None, replacement: Callable[[SharedStateHandle], SharedStateHandle]
) -> TaskStateSnapshot | None:
    if snapshot is None or not any(operator.shared for operator in snapshot.operators):
        return snapshot
    operators = tuple(
        replace(operator, shared=tuple(replacement(handle) for handle in operator.shared))
        for operator in snapshot.operators
    )
    return replace(snapshot, operators=operators)


def snapshots(checkpoint: CompletedCheckpoint) -> Iterable[TaskStateSnapshot | None]:
    return (entry.state for entry in checkpoint.task_states)


def shared_state_of(checkpoint: CompletedCheckpoint) -> dict[str, SharedStateHandle]:
    """Return the shared state of a checkpoint by its id, because subtasks may refer to the same state."""
    return {handle.state_id: handle for snapshot in snapshots(checkpoint) for handle in shared_state(snapshot)}


def exclusive_state_of(checkpoint: CompletedCheckpoint) -> tuple[ExclusiveStateHandle, ...]:
    return tuple(handle for snapshot in snapshots(checkpoint) for handle in exclusive_state(snapshot))


def staged_in(checkpoint: CompletedCheckpoint) -> Iterator[PendingFile | StagedBatch]:
    """Yield the output that sinks had staged but not yet published when the checkpoint was taken."""
    for snapshot in snapshots(checkpoint):
        for operator in snapshot.operators if snapshot else ():
            for state in operator.operator_state:
                for element in state.elements if state.name == COMMITTABLES else ():
                    match _committable(element):
                        case PendingFile() | StagedBatch() as piece:
                            yield piece
                        case WriterState(batches=batches):
                            yield from batches


def state_sizes(checkpoint: CompletedCheckpoint) -> dict[OperatorId, int]:
    """Return the bytes of state of each operator in a checkpoint, without operators that have no state."""
    sizes: dict[OperatorId, int] = {}
    counted_ids: set[str] = set()
    for snapshot in snapshots(checkpoint):
        for operator in snapshot.operators if snapshot else ():
            own = sum(len(element) for each in operator.operator_state for element in each.elements)
            shared = {
                handle.state_id: handle.size_bytes for handle in operator.shared if handle.state_id not in counted_ids
            }
            files = [*shared.values(), *(handle.size_bytes for handle in operator.exclusive)]
            if own or operator.shared or operator.exclusive or operator.keyed_state:
                size = own + len(operator.keyed_state) + sum(files)
                sizes[operator.operator_id] = sizes.get(operator.operator_id, 0) + size
            counted_ids |= shared.keys()
    for coordinator in checkpoint.coordinator_states:
        size = len(coordinator.data) + sum(len(each.event) for each in coordinator.events)
        sizes[coordinator.operator_id] = sizes.get(coordinator.operator_id, 0) + size
    return sizes


def operator_metadata(job_graph: JobGraph) -> tuple[OperatorMetadata, ...]:
    return tuple(
        OperatorMetadata(
            operator_id=operator.operator_id,
            ref=operator.ref,
            name=operator.name,
            kind=operator.kind,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            state_schema=operator.state_schema,
        )
        for vertex in job_graph.vertices
        for operator in vertex.operators
    )


def with_paths(savepoint: CompletedCheckpoint, rename: Callable[[str], str]) -> CompletedCheckpoint:
    """Return a savepoint with the paths of its files replaced by `rename(path)`, including those in sink state."""

    def renamed(operator: OperatorSubtaskState) -> OperatorSubtaskState:
        return replace(
            operator,
            operator_state=_lists_renamed(operator.operator_state, rename),
            shared=tuple(replace(handle, path=rename(handle.path)) for handle in operator.shared),
            exclusive=tuple(replace(handle, path=rename(handle.path)) for handle in operator.exclusive),
        )

    return with_operators(savepoint, renamed)


def with_operators(
    checkpoint: CompletedCheckpoint, change: Callable[[OperatorSubtaskState], OperatorSubtaskState]
) -> CompletedCheckpoint:
    return replace(
        checkpoint,
        task_states=tuple(
            entry
            if entry.state is None
            else replace(entry, state=replace(entry.state, operators=tuple(map(change, entry.state.operators))))
            for entry in checkpoint.task_states
        ),
    )


def _lists_renamed(lists: tuple[OperatorListState, ...], rename: Callable[[str], str]) -> tuple[OperatorListState, ...]:
    """Replace paths in the lists of sinks. Other elements are not decoded: connectors may have their own types."""
    return tuple(
        replace(each, elements=tuple(_element_renamed(element, rename) for element in each.elements))
        if each.name == COMMITTABLES
        else each
        for each in lists
    )


def _element_renamed(element: bytes, rename: Callable[[str], str]) -> bytes:
    match _committable(element):
        case PendingFile(in_savepoint=True, staged=staged) as file:
            return encode(replace(file, staged=rename(staged)))
        case StagedBatch() as batch:
            return encode(_batch_renamed(batch, rename))
        case WriterState(batches=batches) as writer:
            return encode(replace(writer, batches=tuple(_batch_renamed(batch, rename) for batch in batches)))
        case _:
            return element


def _batch_renamed(batch: StagedBatch, rename: Callable[[str], str]) -> StagedBatch:
    return replace(batch, path=rename(batch.path)) if batch.in_savepoint else batch


def _committable(element: bytes) -> Value | None:
    """Decode an element of a sink. Returns `None` for a value of a connector that is not imported here."""
    try:
        return decode(element)
    except DecodeError:
        return None
