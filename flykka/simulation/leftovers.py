"""Checks the storage when a job is over: all that is referred to is there, and where no actor died nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.checkpoint_storage.verification import check_state
from flykka.actors.errors import CheckpointStorageError
from flykka.actors.machines.state.handles import exclusive_state_of, shared_state_of
from flykka.messages.wire.ids import JobId
from flykka.simulation.world import World, checkpoint_of


def missing(world: World, addresses: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with checkpoints and savepoints that were reported."""
    for address in addresses:
        storage = CheckpointStorage(address)
        try:
            check_state(storage.read_metadata(address))
        except CheckpointStorageError as broken:
            yield f"{world.path(address)} was kept, and cannot be restored: {broken}"


def unreferenced(world: World, job_id: JobId) -> list[str]:
    """The files of a job that no checkpoint refers to which is there, or was when the folder of the job was deleted."""
    folder = f"{world.name}/checkpoints/{job_id}"
    there = {path: world.storage.files[path] for path in world.storage.below(folder)}
    files = world.deleted_jobs.get(folder, there)
    referred = {f"{folder}/job-graph"}
    for path in files:
        if path.endswith("/_metadata"):
            checkpoint = checkpoint_of(path, files[path])
            referred |= {path, f"{path.removesuffix('_metadata')}_continued"}
            referred |= {world.path(handle.path) for handle in shared_state_of(checkpoint).values()}
            referred |= {world.path(handle.path) for handle in exclusive_state_of(checkpoint)}
    return sorted(files.keys() - referred)


def forgotten(world: World, job_id: JobId) -> list[str]:
    """Exclusive state of a job that no checkpoint refers to, although its coordinator knew it, and did not delete."""
    folder = f"{world.name}/checkpoints/{job_id}"
    there = {**world.deleted_jobs.get(folder, {}), **world.storage.files}
    unwanted = world.storage.unwanted
    known = {
        path
        for path in world.acknowledged.get(job_id, set())
        # With a folder goes what is in it.
        if path not in unwanted and path.rsplit("/", 1)[0] not in unwanted
    }
    for path in there:
        if path.endswith("/_metadata"):
            folder = path.removesuffix("/_metadata")
            for handle in exclusive_state_of(checkpoint_of(path, there[path])):
                # A savepoint names what lies beside its metadata from there.
                is_beside = handle.path.startswith("./")
                known.discard(folder + handle.path.removeprefix(".") if is_beside else world.path(handle.path))
    return sorted(known & there.keys())


def is_kept(world: World, job_id: JobId) -> bool:
    """True if the folder of a job is still there."""
    return f"{world.name}/checkpoints/{job_id}" not in world.deleted_jobs


def staged(world: World, job_id: JobId) -> list[str]:
    """The files that a job has staged and not published."""
    return world.storage.below(f"{world.name}/staging/{job_id}")


def half_savepoints(world: World) -> list[str]:
    """The folders of savepoints that are not whole."""
    below = f"{world.name}/savepoints/"
    folders = {below + path.removeprefix(below).split("/")[0] for path in world.storage.files if path.startswith(below)}
    return sorted(folder for folder in folders if f"{folder}/_metadata" not in world.storage.files)
