"""Every file of a checkpoint or savepoint compared with what was written. Blocks; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

from flykka.actors.checkpoint_storage.file_digests import is_hidden, located, verify_file, verify_names, wrong_names
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
    """A file that a sink has staged, as a checkpoint refers to it; it becomes `target` when it is published.

    The target of a file `in_transaction` knows what was published, so that a batch may be gone with its folder.
    """

    path: str
    target: str
    digest: FileDigest | None
    in_transaction: bool = False
    in_savepoint: bool = False


def staged_files(checkpoint: CompletedCheckpoint) -> list[UnpublishedFile]:
    """The files that sinks have staged; copies in a savepoint are files of its handles as well."""
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
    """The handles of all files that the metadata refers to, each folder once."""
    handles: list[StateHandle] = [*shared_state_of(checkpoint).values(), *exclusive_state_of(checkpoint)]
    return list({handle.path: handle for handle in handles}.values())


def without_digests(checkpoint: CompletedCheckpoint) -> int:
    """The number of handles without digests, as an older flykka has written them."""
    return sum(not handle.files and handle.size_bytes > 0 for handle in state_handles(checkpoint))


def staged_without_digests(checkpoint: CompletedCheckpoint) -> int:
    """The number of staged files, and folders of them, without digests, as an older flykka has written them."""
    return sum(not (piece.digest if isinstance(piece, PendingFile) else piece.files) for piece in staged_in(checkpoint))


def check_state(checkpoint: CompletedCheckpoint) -> None:
    """Look whether all files are there that the checkpoint refers to, and as large as they were; none is read.

    Raises:
        CheckpointStateMissingError: one is not there, or cut off; the text names it.
        CheckpointFormatError: there is one more; the text names it.
    """
    for handle in state_handles(checkpoint):
        fs, path = located(handle.path)
        size = fs.du(path) if fs.exists(path) else None
        if size is None or size < handle.size_bytes:
            raise CheckpointStateMissingError(
                f"{checkpoint.path}/_metadata refers to state in {handle.path}, "
                + ("which is not there" if size is None else f"of {handle.size_bytes} bytes, of which {size} are there")
            )
        if handle.files:
            verify_names(handle.path, handle.files)


def damages(checkpoint: CompletedCheckpoint) -> Iterator[CheckpointStorageError]:
    """The errors of all files that are missing, damaged, or were not there when the checkpoint was taken.

    The metadata is whole: it was read. Of handles without digests only the sizes are compared. Staged files that were
    published since are passed over, and what they are published to is not looked at: others may rewrite it.
    """
    files: list[tuple[str, FileDigest]] = []
    for handle in state_handles(checkpoint):
        if not handle.files:
            yield from _wrong_size(handle)
            continue
        missing = list(wrong_names(handle.path, handle.files))
        yield from missing
        fs, folder = located(handle.path)
        files += [(f"{folder}/{file.name}", file) for file in handle.files if fs.exists(f"{folder}/{file.name}")]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="flykka-verify") as threads:
        for damage in threads.map(lambda file: _damage(*file), files):
            if damage is not None:
                yield damage
        compared = {(path, file.size_bytes, file.digest) for path, file in files}
        staged = _located(staged_files(checkpoint))
        for damage in threads.map(lambda file: _staged_damage(file[0], file[1], compared), staged):
            if damage is not None:
                yield damage
    if is_savepoint(checkpoint.path):
        yield from _strangers(checkpoint)


def _damage(path: str, written: FileDigest) -> CheckpointStorageError | None:
    try:
        verify_file(path, written)
    except CheckpointStorageError as damage:
        return damage
    except (OSError, ValueError, ImportError) as refusal:
        return _unreadable(path, refusal)
    return None


def _located(staged: list[UnpublishedFile]) -> Iterator[tuple[UnpublishedFile, str]]:
    """Staged files with their present paths: a later owner of the job has moved what was staged before."""

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
    """The error of a staged file that has yet to be published; None for one that was `compared` as a handle's."""
    damage: CheckpointStorageError | None
    try:
        if file.digest is None:
            damage = None if _exists(path) else CheckpointStateMissingError()
        elif file.in_savepoint and (located(path)[1], file.digest.size_bytes, file.digest.digest) in compared:
            return None
        else:
            damage = _damage(path, file.digest)
        if not isinstance(damage, CheckpointStateMissingError):
            return damage
        # The handle of a savepoint names what is missing there.
        if file.in_savepoint or _is_published(file, path):
            return None
    except (OSError, ValueError, ImportError) as refusal:
        return _unreadable(path, refusal)
    return CheckpointStateMissingError(f"{located(path)[1]} was staged by a sink and is not there: its rows are lost")


def _is_published(file: UnpublishedFile, path: str) -> bool:
    """True if a missing file was published, and perhaps taken away since: then its batch's folder is gone as well.

    With the folder of its job the whole disk may be away: only a transactional target knows better.
    """
    if _exists(file.target):
        return True
    return not _exists(batch_folder(path)) and (file.in_transaction or _exists(job_folder(path)))


def _names(folder: str) -> list[str]:
    fs, path = located(folder)
    fs.invalidate_cache(path)
    return [str(each).rstrip("/").rsplit("/", 1)[-1] for each in fs.ls(path, detail=False)] if fs.exists(path) else []


def _exists(address: str) -> bool:
    fs, path = located(address)
    return bool(fs.exists(path))


def _unreadable(path: str, refusal: Exception) -> CheckpointStorageError:
    return CheckpointStorageError(f"{path} cannot be read: {getattr(refusal, 'strerror', None) or refusal}")


def _wrong_size(handle: StateHandle) -> Iterator[CheckpointStorageError]:
    fs, path = located(handle.path)
    if not fs.exists(path):
        yield CheckpointStateMissingError(f"{path} is not there")
    elif (size_bytes := fs.du(path)) < handle.size_bytes:
        yield CheckpointFormatError(
            f"{path} is damaged: {handle.size_bytes} bytes were written, {size_bytes} are there"
        )


def _strangers(savepoint: CompletedCheckpoint) -> Iterator[CheckpointStorageError]:
    """The files in the folder of a savepoint that no handle refers to."""
    fs, folder = located(savepoint.path)
    known = [located(handle.path)[1] for handle in state_handles(savepoint)]
    for path in sorted(fs.find(folder)):
        is_known = any(path == each or path.startswith(f"{each}/") for each in known)
        if not is_known and not any(map(is_hidden, path.removeprefix(f"{folder}/").split("/"))):
            yield CheckpointFormatError(f"{path} is none of the files that were written there")
