"""The checkpoints that are there to continue from: found below a directory, read, and held against a job."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from flykka.actors.checkpoint_storage import CheckpointStorage
from flykka.actors.errors import CheckpointNotFoundError as NoSuchCheckpointError
from flykka.actors.errors import CheckpointStorageError, RestoreError, StateWithoutOperatorError
from flykka.actors.state.assignment import assign
from flykka.errors import CheckpointError, CheckpointNotFoundError
from flykka.messages.checkpoint_metadata import CompletedCheckpoint
from flykka.messages.ids import OperatorId
from flykka.messages.job_graph import JobGraph, Operator, OperatorKind

logger = logging.getLogger("flykka")

LATEST = "latest"
"""In place of a path: the newest completed checkpoint below the checkpoint directory, of whichever job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableCheckpoint:
    """A checkpoint that is there and cannot be read, with the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointListing:
    """What is below a checkpoint directory: completed checkpoints, newest first, and what cannot be read."""

    directory: str
    completed: tuple[CompletedCheckpoint, ...]
    unreadable: tuple[UnreadableCheckpoint, ...]


def list_checkpoints(directory: str) -> CheckpointListing:
    """The checkpoints of all jobs below `directory`. A directory that is not there has none."""
    storage = CheckpointStorage(directory)
    completed: list[CompletedCheckpoint] = []
    unreadable: list[UnreadableCheckpoint] = []
    for address in storage.addresses():
        try:
            completed.append(storage.read_metadata(address))
        except NoSuchCheckpointError:
            # A job that runs has let go of it meanwhile.
            continue
        except CheckpointStorageError as refusal:
            unreadable.append(UnreadableCheckpoint(path=address, reason=str(refusal)))
    completed.sort(key=lambda checkpoint: (checkpoint.timestamp_ms, checkpoint.checkpoint_id), reverse=True)
    return CheckpointListing(directory=directory, completed=tuple(completed), unreadable=tuple(unreadable))


def find_checkpoint(wanted: str, directory: str) -> CompletedCheckpoint:
    """The checkpoint at the path `wanted`, its folder or its metadata file, or the latest below `directory`.

    Raises:
        CheckpointNotFoundError: there is none; the text names the path and what is there.
        CheckpointError: it cannot be read, because it is no checkpoint, or a newer version has written it.
    """
    path = wanted if "://" in wanted else os.path.abspath(wanted)
    try:
        return _latest(directory) if wanted == LATEST else CheckpointStorage(path).read_metadata(path)
    except NoSuchCheckpointError:
        there = _what_is_there(CheckpointStorage(path), path)
        raise CheckpointNotFoundError(f"{wanted!r} is no checkpoint: {there}") from None
    except CheckpointStorageError as refusal:
        raise CheckpointError(f"{wanted!r} cannot be continued from: {refusal}") from refusal


def check_restorable(checkpoint: CompletedCheckpoint, job_graph: JobGraph) -> None:
    """Raise `CheckpointError`, naming the operators, where the job cannot start from the checkpoint."""
    cannot = f"job {job_graph.name!r} cannot continue from {checkpoint.path!r}"
    former = _operators_of_former_job(checkpoint)
    operators = [operator for vertex in job_graph.vertices for operator in vertex.operators]
    for operator in operators:
        was = former.get(operator.operator_id)
        if was is not None and was.kind is not operator.kind:
            raise CheckpointError(
                f"{cannot}: the operator with the uid {operator.ref.uid!r} was a {was.kind} ({was.name}) and is"
                f" a {operator.kind} ({operator.name}) now; give it a uid of its own with uid(...)"
            )
    try:
        assign(checkpoint, job_graph.vertices)
    except StateWithoutOperatorError as missing:
        named = ", ".join(_named(OperatorId(missed), former) for missed in missing.operator_ids)
        # What runs before an exchange on behalf of another operator is none that the user has named.
        written = [each for each in operators if each.kind is not OperatorKind.LOCAL_WINDOW_AGGREGATE]
        uids = ", ".join(repr(operator.ref.uid) for operator in written)
        raise CheckpointError(
            f"{cannot}: it holds state of operators that the job does not have: {named}."
            f" The job has {uids}; give its operators the uids that they had, with uid(...)"
        ) from missing
    except RestoreError as misfit:
        raise CheckpointError(f"{cannot}: {misfit}") from misfit


def _latest(directory: str) -> CompletedCheckpoint:
    if not directory:
        raise CheckpointNotFoundError(
            "the latest checkpoint is looked for below the checkpoint directory, and there is none:"
            " name it with set_checkpoint_dir(...), or a checkpoint with from_checkpoint(PATH)"
        )
    listing = list_checkpoints(directory)
    if listing.completed:
        newest = listing.completed[0]
        for other in listing.unreadable:
            if _is_later(other.path, newest.path):
                raise CheckpointError(
                    f"the latest checkpoint, {other.path!r}, cannot be read: {other.reason}. What it holds may be"
                    f" published already: to go on from the one before it all the same, give its path, {newest.path!r}"
                )
            logger.warning("not considered as the latest checkpoint: %s", other.reason)
        if continued_by := CheckpointStorage(directory).continued_by(newest.path):
            raise CheckpointNotFoundError(
                f"no checkpoint to continue from below {directory!r}: job {continued_by} has gone on from the newest"
                f" one, {newest.path!r}, and has ended without keeping one of its own; to publish once more what it"
                " has published, give that path in place of 'latest'"
            )
        return newest
    broken = "".join(f"\n  cannot be read: {other.reason}" for other in listing.unreadable)
    there = (
        "no checkpoint has completed" if CheckpointStorage(directory).exists(directory) else "there is no such folder"
    )
    raise CheckpointNotFoundError(f"no checkpoint to continue from below {directory!r}: {there}{broken}")


def _is_later(path: str, than: str) -> bool:
    """Whether of two checkpoints of one job this is the later one: they lie side by side, and are numbered."""
    job, _, number = path.rpartition("/chk-")
    other_job, _, other_number = than.rpartition("/chk-")
    return job == other_job and number.isdigit() and int(number) > int(other_number)


def _what_is_there(storage: CheckpointStorage, path: str) -> str:
    if not storage.exists(path):
        return "there is no such file or folder"
    # The folder of one job, or of all.
    for directory in (path, path.rstrip("/").rsplit("/", 1)[0]):
        below = [found.path for found in list_checkpoints(directory).completed if found.path.startswith(f"{path}/")]
        if below:
            return f"the newest checkpoint below it is {below[0]!r}"
    return "it is neither the folder of a checkpoint (chk-<n>) nor its _metadata file"


def _operators_of_former_job(checkpoint: CompletedCheckpoint) -> dict[OperatorId, Operator]:
    # <directory>/<job id>/chk-<n>. A checkpoint that was moved has left the graph behind, and its names with it.
    directory = checkpoint.path.rsplit("/", 2)[0]
    try:
        former = CheckpointStorage(directory).read_job_graph(checkpoint.job_id)
    except CheckpointStorageError:
        return {}
    return {operator.operator_id: operator for vertex in former.vertices for operator in vertex.operators}


def _named(operator_id: OperatorId, known: dict[OperatorId, Operator]) -> str:
    operator = known.get(operator_id)
    return f"{operator.ref.uid!r} ({operator.name})" if operator else f"an operator with the id {operator_id}"
