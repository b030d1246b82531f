"""The files of a subtask in a savepoint: copies, in the savepoint's folder, of all files that may be deleted elsewhere.

A savepoint is self-contained: it refers neither to the job's shared state nor to files staged by its sinks, which are
published or deleted while the savepoint stays. Starting from a savepoint copies pending files back to the sinks and
leaves the savepoint unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from flykka.messages.state.handles import (
    ExclusiveStateHandle,
    FileDigest,
    PendingFile,
    StagedBatch,
    StagingFolder,
    WriterState,
)
from flykka.messages.wire.message import Value


class Files(Protocol):
    def qualified(self, path: str) -> str: ...

    def exists(self, path: str) -> bool: ...

    def copy(self, source: str, target: str) -> None: ...

    def delete(self, path: str) -> None: ...

    def bytes_below(self, folder: str) -> int: ...


class HandleFiles(Protocol):
    @property
    def filesystem(self) -> Files: ...

    def seal(self, folder: str, within: str) -> tuple[FileDigest, ...]: ...

    def verify(self, handles: Iterable[ExclusiveStateHandle]) -> None: ...


def into_savepoint(filesystem: Files, prepared: Iterable[Value], folder: str) -> tuple[Value, ...]:
    """Copy the files that a sink has prepared into `folder`, without the sink's staging folders."""
    copied: list[Value] = []
    for number, piece in enumerate(prepared):
        match piece:
            case PendingFile(staged=staged):
                copy = f"{folder}/{number}-{staged.rsplit('/', 1)[-1]}"
                filesystem.copy(staged, copy)
                copied.append(replace(piece, staged=copy, in_savepoint=True))
            case StagedBatch():
                copied.append(_batch_into(filesystem, piece, f"{folder}/{number}"))
            case WriterState(batches=batches):
                copies = (
                    _batch_into(filesystem, batch, f"{folder}/{number}-{each}") for each, batch in enumerate(batches)
                )
                copied.append(replace(piece, batches=tuple(copies)))
            case StagingFolder():
                continue
            case _:
                copied.append(piece)
    return tuple(copied)


def out_of_savepoint(filesystem: Files, prepared: Sequence[Value], staging: str) -> tuple[Value, ...]:
    """Copy pending files back below `staging`, as if the sink had staged them, without files that are published."""
    copied: list[Value] = []
    for number, piece in enumerate(prepared):
        place = f"{staging}/savepoint-{number}"
        match piece:
            case PendingFile(in_savepoint=True, target=target) if filesystem.exists(target):
                continue
            case PendingFile(in_savepoint=True, staged=staged):
                copy = f"{place}/{staged.rsplit('/', 1)[-1]}"
                _copy_over(filesystem, staged, copy)
                copied.append(replace(piece, staged=copy, in_savepoint=False))
            case StagedBatch():
                copied.append(_batch_out_of(filesystem, piece, place))
            case WriterState(batches=batches):
                copies = (_batch_out_of(filesystem, batch, f"{place}-{each}") for each, batch in enumerate(batches))
                copied.append(replace(piece, batches=tuple(copies)))
            case _:
                copied.append(piece)
    return tuple(copied)


def _batch_into(filesystem: Files, batch: StagedBatch, copy: str) -> StagedBatch:
    filesystem.copy(batch.path, copy)
    return replace(batch, path=copy, in_savepoint=True)


def _batch_out_of(filesystem: Files, batch: StagedBatch, place: str) -> StagedBatch:
    if not batch.in_savepoint:
        return batch
    _copy_over(filesystem, batch.path, place)
    return replace(batch, path=place, in_savepoint=False)


def _copy_over(filesystem: Files, source: str, target: str) -> None:
    # A previous attempt may have died while copying.
    filesystem.delete(target)
    filesystem.copy(source, target)
