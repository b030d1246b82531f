"""What a savepoint holds of a subtask: copies, in its own folder, of all that lies elsewhere and may go.

A savepoint refers to nothing outside: neither to the job's shared state, nor to what its sinks have staged, which is
published or deleted while the savepoint stays. Whoever starts from it copies back what sinks had pending, and leaves
the savepoint as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.messages.state.handles import ExclusiveStateHandle, OperatorSubtaskState
from flykka.messages.state.operator_state import PendingFile, StagedBatch, StagingFolder

if TYPE_CHECKING:
    from flykka.messages.wire.message import Value
    from flykka.spark_bridge.rows.filesystem import FileSystem


def exclusive(state: OperatorSubtaskState) -> OperatorSubtaskState:
    """Keyed state that was written for one savepoint alone."""
    handles = tuple(ExclusiveStateHandle(path=handle.path, size_bytes=handle.size_bytes) for handle in state.shared)
    return replace(state, shared=(), exclusive=handles)


def into_savepoint(filesystem: FileSystem, prepared: Iterable[Value], folder: str) -> tuple[Value, ...]:
    """What a sink has prepared, with its files copied into `folder`; where it stages is no concern of a savepoint."""
    kept: list[Value] = []
    for number, piece in enumerate(prepared):
        match piece:
            case PendingFile(staged=staged):
                copy = f"{folder}/{number}-{staged.rsplit('/', 1)[-1]}"
                filesystem.copy(staged, copy)
                kept.append(replace(piece, staged=copy, in_savepoint=True))
            case StagedBatch(path=path):
                copy = f"{folder}/{number}"
                filesystem.copy(path, copy)
                kept.append(replace(piece, path=copy, in_savepoint=True))
            case StagingFolder():
                continue
            case _:
                kept.append(piece)
    return tuple(kept)


def out_of_savepoint(filesystem: FileSystem, prepared: Sequence[Value], staging: str) -> tuple[Value, ...]:
    """What a sink begins with, as if it had staged it itself below `staging`; what is published already is left out."""
    taken: list[Value] = []
    for number, piece in enumerate(prepared):
        place = f"{staging}/savepoint-{number}"
        match piece:
            case PendingFile(in_savepoint=True, target=target) if filesystem.exists(target):
                continue
            case PendingFile(in_savepoint=True, staged=staged):
                copy = f"{place}/{staged.rsplit('/', 1)[-1]}"
                _copy_anew(filesystem, staged, copy)
                taken.append(replace(piece, staged=copy, in_savepoint=False))
            case StagedBatch(in_savepoint=True, path=path):
                _copy_anew(filesystem, path, place)
                taken.append(replace(piece, path=place, in_savepoint=False))
            case _:
                taken.append(piece)
    return tuple(taken)


def _copy_anew(filesystem: FileSystem, source: str, target: str) -> None:
    # An attempt before may have died over its copy.
    filesystem.delete(target)
    filesystem.copy(source, target)
