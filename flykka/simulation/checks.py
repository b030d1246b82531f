"""Checks after the end of a job: its output must be the expected output, which is computed from the source rows.

Its storage must contain all files to which checkpoints refer, and no others unless an actor was killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from flykka.actors.checkpoint_storage.storage import CheckpointStorage
from flykka.actors.checkpoint_storage.verification import check_state
from flykka.actors.errors import CheckpointStorageError
from flykka.actors.machines.state.handles import exclusive_state_of, shared_state_of
from flykka.messages.wire.ids import JobId
from flykka.simulation.environment import Environment, checkpoint_of
from flykka.simulation.operators import Join
from flykka.simulation.topology import Topology


def wrong_output(
    topology: Topology, environment: Environment, *, is_complete: bool, is_exact: bool, is_lossy: bool = False
) -> Iterator[str]:
    """Yield the errors in the output of each sink.

    If the job has read all its input (`is_complete`), all rows must have been published, unless some may be missing
    (`is_lossy`). If the job `is_exact`, no row may be counted twice.
    """
    # If rows are lost, outer joins emit the matching rows as unmatched.
    behaviours = topology.program.behaviours.values()
    may_be_alone = is_lossy and any(isinstance(behaviour, Join) and behaviour.outer for behaviour in behaviours)
    for sink, expected in topology.expected_output().items():
        published = Counter(part for row in environment.published(sink) for part in row.parts)
        missing, extra = expected - published, published - expected
        if is_complete and missing and not is_lossy:
            yield f"{sink} lacks {missing.total()} of {expected.total()} rows, such as {_first(missing)}"
        if not is_exact:
            extra = Counter({part: count for part, count in extra.items() if part not in expected})
        if may_be_alone:
            extra = Counter({part: count for part, count in extra.items() if part in expected})
        if extra:
            yield f"{sink} has {extra.total()} rows too many, such as {_first(extra)}"
    # A source that reads rows again may have sent a later watermark, and other sources do not wait for idle ones.
    may_be_late = not is_exact or is_lossy or any(vertex.idle_timeout_ms is not None for vertex in topology.vertices)
    if environment.late_rows and not may_be_late:
        yield f"{environment.late_rows} rows are late although their sources respect the declared out-of-orderness"


def _first(rows: Counter[tuple[int, int]]) -> str:
    number, value = min(rows)
    return f"row {number} with value {value}"


def missing(environment: Environment, addresses: Iterable[str]) -> Iterator[str]:
    for address in addresses:
        storage = CheckpointStorage(address)
        try:
            check_state(storage.read_metadata(address))
        except CheckpointStorageError as broken:
            yield f"{environment.path(address)} was retained, but cannot be restored: {broken}"


def unreferenced(environment: Environment, job_id: JobId) -> list[str]:
    """Return a job's files to which no existing checkpoint refers.

    If the job's folder was deleted, its files at that time are considered.
    """
    folder = f"{environment.name}/checkpoints/{job_id}"
    there = {path: environment.storage.files[path] for path in environment.storage.below(folder)}
    files = environment.deleted_jobs.get(folder, there)
    referred = {f"{folder}/job-graph"}
    for path in files:
        if path.endswith("/_metadata"):
            checkpoint = checkpoint_of(path, files[path])
            referred |= {path, f"{path.removesuffix('_metadata')}_continued"}
            referred |= {environment.path(handle.path) for handle in shared_state_of(checkpoint).values()}
            referred |= {environment.path(handle.path) for handle in exclusive_state_of(checkpoint)}
    return sorted(files.keys() - referred)


def forgotten(environment: Environment, job_id: JobId) -> list[str]:
    """Return exclusive state that the coordinator received but did not delete, and to which no checkpoint refers."""
    folder = f"{environment.name}/checkpoints/{job_id}"
    there = {**environment.deleted_jobs.get(folder, {}), **environment.storage.files}
    unwanted = environment.storage.unwanted
    paths = {
        path
        for path in environment.acknowledged.get(job_id, set())
        # Deleting a folder also deletes its files.
        if path not in unwanted and path.rsplit("/", 1)[0] not in unwanted
    }
    for path in there:
        if path.endswith("/_metadata"):
            folder = path.removesuffix("/_metadata")
            for handle in exclusive_state_of(checkpoint_of(path, there[path])):
                # The paths in a savepoint are relative to its metadata.
                is_beside = handle.path.startswith("./")
                paths.discard(folder + handle.path.removeprefix(".") if is_beside else environment.path(handle.path))
    return sorted(paths & there.keys())


def is_kept(environment: Environment, job_id: JobId) -> bool:
    return f"{environment.name}/checkpoints/{job_id}" not in environment.deleted_jobs


def staged(environment: Environment, job_id: JobId) -> list[str]:
    return environment.storage.below(f"{environment.name}/staging/{job_id}")


def half_savepoints(environment: Environment) -> list[str]:
    below = f"{environment.name}/savepoints/"
    folders = {
        below + path.removeprefix(below).split("/")[0] for path in environment.storage.files if path.startswith(below)
    }
    return sorted(folder for folder in folders if f"{folder}/_metadata" not in environment.storage.files)
