"""Finds and reads checkpoints and savepoints, and checks whether a job can start from them."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

from flykka.actors.checkpoint_storage.storage import CHECKPOINT, CheckpointStorage
from flykka.actors.checkpoint_storage.verification import (
    check_state,
    damages,
    staged_files,
    staged_without_digests,
    state_handles,
    without_digests,
)
from flykka.actors.errors import CheckpointFileNotFoundError, CheckpointStorageError
from flykka.actors.machines.state.handles import operator_metadata
from flykka.client.directories import absolute_directory
from flykka.client.state_compatibility import StateCompatibility, state_compatibility
from flykka.errors import CheckpointError, CheckpointNotFoundError
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint, OperatorMetadata
from flykka.messages.graph.job_graph import JobGraph, JobType
from flykka.messages.wire.ids import OperatorId
from flykka.views.text.formats import first_of

logger = logging.getLogger("flykka")

LATEST = "latest"
"""Stands for the newest completed checkpoint of any job in the checkpoint directory, in place of a path."""

_NAMED = 5
"""The maximum number of savepoints that an error lists when the user specified their parent directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableCheckpoint:
    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointListing:
    directory: str
    completed: tuple[CompletedCheckpoint, ...]
    unreadable: tuple[UnreadableCheckpoint, ...]


def list_checkpoints(directory: str) -> CheckpointListing:
    """List the checkpoints of all jobs in `directory`, which need not exist."""
    storage = CheckpointStorage(directory)
    completed: list[CompletedCheckpoint] = []
    unreadable: list[UnreadableCheckpoint] = []
    for address in storage.addresses():
        try:
            completed.append(storage.read_metadata(address))
        except CheckpointFileNotFoundError:
            # A running job has deleted the checkpoint meanwhile.
            continue
        except CheckpointStorageError as refusal:
            unreadable.append(UnreadableCheckpoint(path=address, reason=str(refusal)))
    completed.sort(key=lambda checkpoint: (checkpoint.timestamp_ms, checkpoint.checkpoint_id), reverse=True)
    return CheckpointListing(directory=directory, completed=tuple(completed), unreadable=tuple(unreadable))


def read_checkpoint(path: str) -> CompletedCheckpoint:
    """Read the checkpoint at `path`, even if files are missing. Raises the errors of `find_checkpoint`."""
    absolute = absolute_directory(path)
    try:
        return CheckpointStorage(absolute).read_metadata(absolute)
    except CheckpointFileNotFoundError:
        there = _content_text(CheckpointStorage(absolute), absolute)
        raise CheckpointNotFoundError(f"{path!r} is not a checkpoint or savepoint: {there}") from None
    except CheckpointStorageError as refusal:
        raise CheckpointError(f"{path!r} cannot be continued from: {refusal}") from refusal


def missing_state(checkpoint: CompletedCheckpoint) -> str | None:
    """Describe the missing or incomplete files of a checkpoint. Returns None if it is complete."""
    try:
        check_state(checkpoint)
    except CheckpointStorageError as missing:
        return str(missing)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCheckpoint:
    """The result of reading all files of a checkpoint or savepoint.

    `damages` describes each file that is missing, damaged or unexpected, with its path. `without_digests` counts files
    of an older flykka, of which only the sizes were compared. `staged_files` are unpublished files of sinks outside of
    a savepoint. Files that have been published since are not checked.
    """

    path: str
    files: int
    size_bytes: int
    damages: tuple[str, ...]
    without_digests: int
    staged_files: int = 0


def verify_checkpoint(checkpoint: CompletedCheckpoint) -> VerifiedCheckpoint:
    handles = state_handles(checkpoint)
    return VerifiedCheckpoint(
        path=checkpoint.path,
        files=sum(len(handle.files) or 1 for handle in handles),
        size_bytes=sum(handle.size_bytes for handle in handles),
        damages=tuple(str(damage) for damage in damages(checkpoint)),
        without_digests=without_digests(checkpoint) + staged_without_digests(checkpoint),
        staged_files=sum(not file.in_savepoint for file in staged_files(checkpoint)),
    )


def earlier_checkpoint(path: str) -> str | None:
    """Return the newest undamaged checkpoint of the same job before the one at `path`."""
    job, _, number = path.rstrip("/").rpartition(f"/{CHECKPOINT}")
    if not number.isdigit():
        return None
    for earlier in reversed(CheckpointStorage(job).beside(job, before=int(number))):
        with suppress(CheckpointStorageError, OSError):
            if not any(damages(CheckpointStorage(earlier).read_metadata(earlier))):
                return earlier
    return None


def find_checkpoint(requested: str, directory: str) -> CompletedCheckpoint:
    """Return the checkpoint at the path `requested`, its folder or its metadata file, or the latest one in `directory`.

    Raises:
        CheckpointNotFoundError: there is no checkpoint; the error names the path and describes its contents.
        CheckpointError: the file is not a checkpoint, was written by a newer version, or lacks state.
    """
    checkpoint = _latest(directory) if requested == LATEST else read_checkpoint(requested)
    if (missing := missing_state(checkpoint)) is not None:
        raise CheckpointError(f"{requested!r} cannot be continued from: {missing}")
    return checkpoint


def newest_of_job(directory: str, job_name: str) -> str | None:
    """Return the path of the newest checkpoint in `directory` of the jobs with this name.

    Returns None if there is no checkpoint, or if another job has continued from it and ended without retaining a
    checkpoint.
    """
    newest = next((each for each in list_checkpoints(directory).completed if each.job_name == job_name), None)
    if newest is None or CheckpointStorage(directory).continued_by(newest.path):
        return None
    return newest.path


def check_restorable(
    checkpoint: CompletedCheckpoint, job_graph: JobGraph, *, allow_non_restored_state: bool = False
) -> None:
    """Raise `CheckpointError`, which names the operators, if the job cannot start from the checkpoint."""
    if job_graph.job_type is JobType.BATCH:
        raise CheckpointError(
            f"job {job_graph.name!r} cannot continue from {checkpoint.path!r}: it is a batch job, which begins with its"
            " input; set the runtime mode to STREAMING"
        )
    held_against = compatibility(checkpoint, job_graph, allow_non_restored_state=allow_non_restored_state)
    if held_against.problems:
        cannot = f"job {job_graph.name!r} cannot continue from {checkpoint.path!r}"
        raise CheckpointError(f"{cannot}: {'; '.join(held_against.problems)}")


def compatibility(
    checkpoint: CompletedCheckpoint, job_graph: JobGraph, *, allow_non_restored_state: bool = False
) -> StateCompatibility:
    return state_compatibility(
        checkpoint, job_graph, operators_of(checkpoint), allow_non_restored_state=allow_non_restored_state
    )


def operators_of(checkpoint: CompletedCheckpoint) -> dict[OperatorId, OperatorMetadata]:
    """Return the known operators of the job that took the checkpoint.

    Checkpoints of older versions do not contain the operators. Then they are read from the job graph, which is missing
    if the checkpoint was moved.
    """
    if checkpoint.operators:
        return {operator.operator_id: operator for operator in checkpoint.operators}
    # The path is <directory>/<job id>/chk-<n>.
    directory = checkpoint.path.rsplit("/", 2)[0]
    try:
        former = CheckpointStorage(directory).read_job_graph(checkpoint.job_id)
    except CheckpointStorageError:
        return {}
    return {operator.operator_id: operator for operator in operator_metadata(former)}


def _latest(directory: str) -> CompletedCheckpoint:
    if not directory:
        raise CheckpointNotFoundError(
            "there is no checkpoint directory with a latest checkpoint:"
            " set one with set_checkpoint_dir(...), or name a checkpoint with from_checkpoint(PATH)"
        )
    listing = list_checkpoints(directory)
    if listing.completed:
        newest = listing.completed[0]
        for other in listing.unreadable:
            if _is_later(other.path, newest.path):
                raise CheckpointError(
                    f"the latest checkpoint, {other.path!r}, cannot be read: {other.reason}. Its output may be"
                    f" published already: to continue from the previous one anyway, pass its path, {newest.path!r}"
                )
            logger.warning("ignored in the search for the latest checkpoint: %s", other.reason)
        if continued_by := CheckpointStorage(directory).continued_by(newest.path):
            raise CheckpointNotFoundError(
                f"no checkpoint to continue from below {directory!r}: job {continued_by} has continued from the newest"
                f" one, {newest.path!r}, and has ended without retaining its own; to publish its output once more,"
                " pass that path instead of 'latest'"
            )
        return newest
    broken = "".join(f"\n  cannot be read: {other.reason}" for other in listing.unreadable)
    there = (
        "no checkpoint has completed" if CheckpointStorage(directory).exists(directory) else "there is no such folder"
    )
    raise CheckpointNotFoundError(f"no checkpoint to continue from below {directory!r}: {there}{broken}")


def _is_later(path: str, than: str) -> bool:
    """Return whether `path` is the later of two checkpoints of one job. Their folders are numbered."""
    job, _, number = path.rpartition("/chk-")
    other_job, _, other_number = than.rpartition("/chk-")
    return job == other_job and number.isdigit() and int(number) > int(other_number)


def _content_text(storage: CheckpointStorage, path: str) -> str:
    if not storage.exists(path):
        return "there is no such file or folder"
    if savepoints := CheckpointStorage(path).savepoints():
        return f"savepoints are below it: {first_of([*map(repr, savepoints)], _NAMED)}"
    # The path may be the folder of one job, or of all jobs.
    for directory in (path, path.rstrip("/").rsplit("/", 1)[0]):
        below = [
            checkpoint.path
            for checkpoint in list_checkpoints(directory).completed
            if checkpoint.path.startswith(f"{path}/")
        ]
        if below:
            return f"the newest checkpoint below it is {below[0]!r}"
    return "it is neither the folder of a checkpoint (chk-<n>) or a savepoint (savepoint-<...>) nor its _metadata file"
