"""Checks the storage and the output when a job is over.

All that is referred to is there, and where no actor died nothing else.
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
    return f"{world.name}/checkpoints/{job_id}" not in world.deleted_jobs


def staged(world: World, job_id: JobId) -> list[str]:
    """The files that a job has staged and not published."""
    return world.storage.below(f"{world.name}/staging/{job_id}")


def half_savepoints(world: World) -> list[str]:
    """The folders of savepoints that are not whole."""
    below = f"{world.name}/savepoints/"
    folders = {below + path.removeprefix(below).split("/")[0] for path in world.storage.files if path.startswith(below)}
    return sorted(folder for folder in folders if f"{folder}/_metadata" not in world.storage.files)


class Truth:
    """Compares the output with the truth, which is computed from the rows of the sources alone."""

    def __init__(self, topology: Topology, world: World, *, is_exact: bool, is_lossy: bool = False) -> None:
        """`is_exact`: no row may count twice; `is_lossy`: some may be missing."""
        self._expected = topology.truth()
        self._world = world
        self._is_lossy = is_lossy
        self._is_exact = is_exact
        # Rows whose partners are lost come out alone, of a join that lets them.
        behaviours = topology.program.behaviours.values()
        has_outer_join = any(isinstance(behaviour, Join) and behaviour.outer for behaviour in behaviours)
        self._may_be_alone = is_lossy and has_outer_join
        # Who reads a row again may have told the time behind it, and nobody waits for a source that counts as idle.
        self._is_never_late = (
            is_exact and not is_lossy and all(vertex.idle_timeout_ms is None for vertex in topology.vertices)
        )

    def wrong(self, *, is_complete: bool) -> Iterator[str]:
        """Yield what is wrong with each sink. Of a job that has read all, every row is to be there."""
        for sink, expected in self._expected.items():
            seen = Counter(part for row in self._world.published(sink) for part in row.parts)
            missing, extra = expected - seen, seen - expected
            if is_complete and missing and not self._is_lossy:
                yield f"{sink} lacks {missing.total()} of {expected.total()} rows, such as {_first(missing)}"
            if not self._is_exact:
                extra = Counter({part: count for part, count in extra.items() if part not in expected})
            if self._may_be_alone:
                extra = Counter({part: count for part, count in extra.items() if part in expected})
            if extra:
                yield f"{sink} has {extra.total()} rows too many, such as {_first(extra)}"
        if self._world.late_rows and self._is_never_late:
            yield f"{self._world.late_rows} rows came late, of sources that are as much out of order as they say"


def _first(rows: Counter[tuple[int, int]]) -> str:
    number, value = min(rows)
    return f"row {number} with value {value}"
