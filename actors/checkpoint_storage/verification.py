"""Every file of a checkpoint or savepoint compared with what was written. Blocks; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from flykka.actors.checkpoint_storage.file_digests import is_hidden, located, verify_file, verify_names, wrong_names
from flykka.actors.checkpoint_storage.savepoint_name import is_savepoint
from flykka.actors.errors import CheckpointFormatError, CheckpointStateMissingError, CheckpointStorageError
from flykka.actors.machines.state.handles import exclusive_state_of, shared_state_of
from flykka.messages.checkpointing.metadata import CompletedCheckpoint
from flykka.messages.state.file_digest import FileDigest
from flykka.messages.state.handles import ExclusiveStateHandle, SharedStateHandle

_THREADS = 8

StateHandle = SharedStateHandle | ExclusiveStateHandle


def state_handles(checkpoint: CompletedCheckpoint) -> list[StateHandle]:
    """The handles of all files that the metadata refers to, each folder once."""
    handles: list[StateHandle] = [*shared_state_of(checkpoint).values(), *exclusive_state_of(checkpoint)]
    return list({handle.path: handle for handle in handles}.values())


def without_digests(checkpoint: CompletedCheckpoint) -> int:
    """The number of handles without digests, as an older flykka has written them."""
    return sum(not handle.files and handle.size_bytes > 0 for handle in state_handles(checkpoint))


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

    The metadata is whole: it was read. Of handles without digests only the sizes are compared.
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
    if is_savepoint(checkpoint.path):
        yield from _strangers(checkpoint)


def _damage(path: str, written: FileDigest) -> CheckpointStorageError | None:
    try:
        verify_file(path, written)
    except CheckpointStorageError as damage:
        return damage
    except OSError as refusal:
        return CheckpointStorageError(f"{path} cannot be read: {refusal.strerror or refusal}")
    return None


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
