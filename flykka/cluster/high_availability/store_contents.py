"""Leftovers of an application in its store: for a look, and to be forgotten where nobody goes on with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, Queue

from flykka.actors.high_availability.services import HighAvailabilityServices, LeaderStore
from flykka.errors import ClusterError
from flykka.messages.control.high_availability import ApplicationRun
from flykka.messages.control.job import JobStatus
from flykka.messages.wire.ids import JobId, LeaderSessionId

_NO_SESSION = LeaderSessionId("")
"""The session of nobody: such a store can only be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job in a store: its latest checkpoint there, and its end where it has one."""

    job_id: JobId
    name: str | None
    status: JobStatus | None
    checkpoint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreContents:
    """The contents of a store: the last run, and jobs that are to be gone on with or have ended in it."""

    run: ApplicationRun | None
    jobs: tuple[StoredJob, ...]

    @property
    def is_empty(self) -> bool:
        return not self.jobs and (self.run is None or self.run.is_concluded)


def store_contents(services: HighAvailabilityServices) -> StoreContents:
    """Look into a store; anybody may. Raises `StoreUnavailableError`."""
    store = services.store(_NO_SESSION)
    kept = {job.job_graph.job_id: job for job in store.jobs()}
    ended = {end.job_id: end for end in store.results()}
    jobs = []
    for job_id in sorted({*kept, *ended}):
        pointer, end = store.checkpoints(job_id).latest(), ended.get(job_id)
        jobs.append(
            StoredJob(
                job_id=job_id,
                name=kept[job_id].job_graph.name if job_id in kept else None,
                status=None if end is None else end.status,
                checkpoint=pointer.path if pointer is not None else None if end is None else end.checkpoint_path,
            )
        )
    return StoreContents(run=services.last_run(), jobs=tuple(jobs))


def forget(store: LeaderStore, run: ApplicationRun | None) -> None:
    """Conclude the run, and forget its jobs and their results. Checkpoints stay where they are.

    Done again, it is done to its end: the run is concluded first, and the next one would forget the rest.
    """
    if run is not None:
        store.conclude_run(run.run_id)
    store.forget_jobs()


@contextmanager
def leading(services: HighAvailabilityServices, timeout: float) -> Iterator[LeaderStore]:
    """Lead for a while.

    Raises:
        ClusterError: another driver leads, or has died so lately that nobody can tell; or the store cannot be used.
    """
    contender = _Contender()
    services.contend(contender)
    try:
        said = contender.told.get(timeout=timeout)
    except Empty:
        raise ClusterError(
            f"a driver leads in {services.name}, or has died just now: end it, or try again when its session is over"
        ) from None
    if isinstance(said, BaseException):
        raise ClusterError(f"{services.name} cannot be used: {said}") from said
    yield services.store(said)


class _Contender:
    """Waits to lead on another thread."""

    def __init__(self) -> None:
        self.told: Queue[LeaderSessionId | BaseException] = Queue()

    def granted(self, session: LeaderSessionId) -> None:
        self.told.put(session)

    def revoked(self, session: LeaderSessionId) -> None:
        """Writes raise `LeadershipLostError` from now on."""

    def failed(self, error: BaseException) -> None:
        """It will never lead."""
        self.told.put(error)
