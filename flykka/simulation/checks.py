"""Checks when a job has ended: its output against the truth, which is computed from the rows of the sources alone.

And the storage: all that is referred to is there, and where no actor died nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.checkpoint_storage.verification import check_state
from flykka.actors.errors import CheckpointStorageError
from flykka.actors.machines.state.handles import exclusive_state_of, shared_state_of
from flykka.messages.wire.ids import JobId
from flykka.simulation.operators import Join
from flykka.simulation.topology import Topology
from flykka.simulation.world import World, checkpoint_of


def wrong_output(
    topology: Topology, world: World, *, is_complete: bool, is_exact: bool, is_lossy: bool = False
) -> Iterator[str]:
    """Yield what is wrong with each sink.

    Of a job that has read all (`is_complete`), every row is to be there, unless some may be missing (`is_lossy`); where
    it `is_exact`, no row may count twice.
    """
    # Rows whose partners are lost come out alone, of a join that lets them.
    behaviours = topology.program.behaviours.values()
    may_be_alone = is_lossy and any(isinstance(behaviour, Join) and behaviour.outer for behaviour in behaviours)
    for sink, expected in topology.truth().items():
        seen = Counter(part for row in world.published(sink) for part in row.parts)
        missing, extra = expected - seen, seen - expected
        if is_complete and missing and not is_lossy:
            yield f"{sink} lacks {missing.total()} of {expected.total()} rows, such as {_first(missing)}"
        if not is_exact:
            extra = Counter({part: count for part, count in extra.items() if part not in expected})
        if may_be_alone:
            extra = Counter({part: count for part, count in extra.items() if part in expected})
        if extra:
            yield f"{sink} has {extra.total()} rows too many, such as {_first(extra)}"
    # Who reads a row again may have told the time behind it, and nobody waits for a source that counts as idle.
    may_be_late = not is_exact or is_lossy or any(vertex.idle_timeout_ms is not None for vertex in topology.vertices)
    if world.late_rows and not may_be_late:
        yield f"{world.late_rows} rows came late, of sources that are as much out of order as they say"


def _first(rows: Counter[tuple[int, int]]) -> str:
    number, value = min(rows)
    return f"row {number} with value {value}"


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
