"""Compares every file of a checkpoint or savepoint with its digest. Blocks, and does not need Spark."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

from flykka.actors.checkpoint_storage.file_digests import (
    is_hidden,
    name_errors,
    split_address,
    verify_file,
    verify_names,
)
from flykka.actors.checkpoint_storage.file_names import is_savepoint
from flykka.actors.checkpoint_storage.staged_paths import batch_folder, current_path, job_folder
from flykka.actors.errors import CheckpointFormatError, CheckpointStateMissingError, CheckpointStorageError
from flykka.actors.machines.state.handles import exclusive_state_of, shared_state_of, staged_in
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.state.handles import ExclusiveStateHandle, FileDigest, PendingFile, SharedStateHandle, StagedBatch

_THREADS = 8

StateHandle = SharedStateHandle | ExclusiveStateHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpublishedFile:
    """A file that a sink has staged and to which a checkpoint refers. Publishing moves it to `target`.

    If the file is published `in_transaction`, the target records published files, and the batch's folder may be
    missing.
    """

    path: str
    target: str
    digest: FileDigest | None
    in_transaction: bool = False
    in_savepoint: bool = False


def staged_files(checkpoint: CompletedCheckpoint) -> list[UnpublishedFile]:
    """Return the files that sinks have staged. A savepoint's handles contain copies of them."""
    files: list[UnpublishedFile] = []
    for piece in staged_in(checkpoint):
        match piece:
            case PendingFile(staged=path, target=target, digest=digest, in_savepoint=in_savepoint):
                files.append(UnpublishedFile(path=path, target=target, digest=digest, in_savepoint=in_savepoint))
            case StagedBatch(path=path, in_savepoint=in_savepoint):
                # Tables stage in <table>/<staging>/<job>, and their files are moved before they are committed.
                table = job_folder(path).rsplit("/", 2)[0]
                files += [
                    UnpublishedFile(
                        path=f"{path}/{digest.name}",
                        target=f"{table}/{digest.name}",
                        digest=digest,
                        in_transaction=True,
                        in_savepoint=in_savepoint,
                    )
                    for digest in piece.files
                ]
    return files


def state_handles(checkpoint: CompletedCheckpoint) -> list[StateHandle]:
    handles: list[StateHandle] = [*shared_state_of(checkpoint).values(), *exclusive_state_of(checkpoint)]
    return list({handle.path: handle for handle in handles}.values())


def without_digests(checkpoint: CompletedCheckpoint) -> int:
    """Count the handles without digests, which older versions of flykka wrote."""
    return sum(not handle.files and handle.size_bytes > 0 for handle in state_handles(checkpoint))


def staged_without_digests(checkpoint: CompletedCheckpoint) -> int:
    return sum(not (piece.digest if isinstance(piece, PendingFile) else piece.files) for piece in staged_in(checkpoint))


def check_state(checkpoint: CompletedCheckpoint) -> None:
    """Check that all files of the checkpoint exist and are large enough, without reading them.

    Raises:
        CheckpointStateMissingError: a file is missing or truncated. The message names it.
        CheckpointFormatError: there is an unexpected file. The message names it.
    """
    for handle in state_handles(checkpoint):
        fs, path = split_address(handle.path)
        size = fs.du(path) if fs.exists(path) else None
        if size is None or size < handle.size_bytes:
            raise CheckpointStateMissingError(
                f"{checkpoint.path}/_metadata refers to state in {handle.path}, "
                + (
                    "which is missing"
                    if size is None
                    else f"of {handle.size_bytes} bytes, but only {size} of them exist"
                )
            )
        if handle.files:
            verify_names(handle.path, handle.files)


def damages(checkpoint: CompletedCheckpoint) -> Iterator[CheckpointStorageError]:
    """Yield an error for each file that is missing, damaged or unexpected.

    The metadata is intact, because it has been read. Handles without digests are compared by size only. Published
    staged files and their targets are skipped, because others may rewrite the targets.
    """
    files: list[tuple[str, FileDigest]] = []
    for handle in state_handles(checkpoint):
        if not handle.files:
            yield from _wrong_size(handle)
            continue
        missing = list(name_errors(handle.path, handle.files))
        yield from missing
        fs, folder = split_address(handle.path)
        files += [(f"{folder}/{file.name}", file) for file in handle.files if fs.exists(f"{folder}/{file.name}")]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="flykka-verify") as threads:
        for damage in threads.map(lambda file: _damage(*file), files):
            if damage is not None:
                yield damage
        compared = {(path, file.size_bytes, file.digest) for path, file in files}
        staged = _with_current_paths(staged_files(checkpoint))
        for damage in threads.map(lambda file: _staged_damage(file[0], file[1], compared), staged):
            if damage is not None:
                yield damage
    if is_savepoint(checkpoint.path):
        yield from _foreign_files(checkpoint)


def _damage(path: str, expected: FileDigest) -> CheckpointStorageError | None:
    try:
        verify_file(path, expected)
    except CheckpointStorageError as damage:
        return damage
    except (OSError, ValueError, ImportError) as error:
        return _unreadable(path, error)
    return None


def _with_current_paths(staged: list[UnpublishedFile]) -> Iterator[tuple[UnpublishedFile, str]]:
    """Yield staged files with their current paths: a later owner of the job moves files that were staged before."""

    @cache
    def current(folder: str) -> str:
        try:
            return current_path(folder, _names, _exists)
        except (OSError, ValueError, ImportError):
            return folder  # The error is reported for each file.

    for file in staged:
        folder = batch_folder(file.path)
        yield file, current(folder) + file.path.removeprefix(folder)


def _staged_damage(
    file: UnpublishedFile, path: str, compared: set[tuple[str, int, bytes]]
) -> CheckpointStorageError | None:
    """Return the error of an unpublished staged file, or None if it is intact. `compared` files were checked by a
    handle.
    """
    damage: CheckpointStorageError | None
    try:
        if file.digest is None:
            damage = None if _exists(path) else CheckpointStateMissingError()
        elif file.in_savepoint and (split_address(path)[1], file.digest.size_bytes, file.digest.digest) in compared:
            return None
        else:
            damage = _damage(path, file.digest)
        if not isinstance(damage, CheckpointStateMissingError):
            return damage
        # If a file is missing from a savepoint, its handle reports it.
        if file.in_savepoint or _is_published(file, path):
            return None
    except (OSError, ValueError, ImportError) as error:
        return _unreadable(path, error)
    return CheckpointStateMissingError(
        f"{split_address(path)[1]} was staged by a sink and is missing: its rows are lost"
    )


def _is_published(file: UnpublishedFile, path: str) -> bool:
    """Return whether a missing file was published. Publishing removes its batch folder, and the target may be gone
    since.

    If the job's folder is missing too, the whole disk may be missing; then only a transactional target can know.
    """
    if _exists(file.target):
        return True
    return not _exists(batch_folder(path)) and (file.in_transaction or _exists(job_folder(path)))


def _names(folder: str) -> list[str]:
    fs, path = split_address(folder)
    fs.invalidate_cache(path)
    return [str(each).rstrip("/").rsplit("/", 1)[-1] for each in fs.ls(path, detail=False)] if fs.exists(path) else []


def _exists(address: str) -> bool:
    fs, path = split_address(address)
    return bool(fs.exists(path))


def _unreadable(path: str, error: Exception) -> CheckpointStorageError:
    return CheckpointStorageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")


def _wrong_size(handle: StateHandle) -> Iterator[CheckpointStorageError]:
    fs, path = split_address(handle.path)
    if not fs.exists(path):
        yield CheckpointStateMissingError(f"{path} is missing")
    elif (size_bytes := fs.du(path)) < handle.size_bytes:
        yield CheckpointFormatError(
            f"{path} is damaged: {handle.size_bytes} bytes were written, but it has {size_bytes}"
        )


def _foreign_files(savepoint: CompletedCheckpoint) -> Iterator[CheckpointStorageError]:
    """Yield an error for each file in the folder of a savepoint to which no handle refers."""
    fs, folder = split_address(savepoint.path)
    paths = [split_address(handle.path)[1] for handle in state_handles(savepoint)]
    for path in sorted(fs.find(folder)):
        is_known = any(path == each or path.startswith(f"{each}/") for each in paths)
        if not is_known and not any(map(is_hidden, path.removeprefix(f"{folder}/").split("/"))):
            yield CheckpointFormatError(f"{path} is unexpected: it was not written with this state")
