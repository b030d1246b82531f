"""The contents of an application's store: reads them, and deletes jobs that will not be continued."""

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
"""An invalid leader session, with which a store can only be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    job_id: JobId
    name: str | None
    status: JobStatus | None
    checkpoint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreContents:
    """The last run of an application, with jobs that will be continued and jobs that have ended."""

    run: ApplicationRun | None
    jobs: tuple[StoredJob, ...]

    @property
    def is_empty(self) -> bool:
        return not self.jobs and (self.run is None or self.run.is_concluded)


def store_contents(services: HighAvailabilityServices) -> StoreContents:
    """Read the contents of a store. Leadership is not needed. Raises `StoreUnavailableError`."""
    store = services.store(_NO_SESSION)
    jobs_by_id = {job.job_graph.job_id: job for job in store.jobs()}
    ended = {end.job_id: end for end in store.results()}
    jobs = []
    for job_id in sorted({*jobs_by_id, *ended}):
        pointer, end = store.checkpoints(job_id).latest(), ended.get(job_id)
        jobs.append(
            StoredJob(
                job_id=job_id,
                name=jobs_by_id[job_id].job_graph.name if job_id in jobs_by_id else None,
                status=None if end is None else end.status,
                checkpoint=pointer.path if pointer is not None else None if end is None else end.checkpoint_path,
            )
        )
    return StoreContents(run=services.last_run(), jobs=tuple(jobs))


def forget(store: LeaderStore, run: ApplicationRun | None) -> None:
    """Conclude the run, and delete its jobs and their results. Checkpoints are kept.

    An interrupted call can be repeated: the run is concluded first, and the next run would delete the remaining jobs.
    """
    if run is not None:
        store.conclude_run(run.run_id)
    store.forget_jobs()


@contextmanager
def leading(services: HighAvailabilityServices, timeout: float) -> Iterator[LeaderStore]:
    """Hold the leadership during a `with` block.

    Raises:
        ClusterError: another driver leads, the session of a dead driver has not ended, or the store cannot be used.
    """
    contender = _Contender()
    services.contend(contender)
    try:
        answer = contender.answers.get(timeout=timeout)
    except Empty:
        raise ClusterError(
            f"a driver leads in {services.name}, or died recently: end it, or try again after its session has ended"
        ) from None
    if isinstance(answer, BaseException):
        raise ClusterError(f"{services.name} cannot be used: {answer}") from answer
    yield services.store(answer)


class _Contender:
    def __init__(self) -> None:
        self.answers: Queue[LeaderSessionId | BaseException] = Queue()

    def granted(self, session: LeaderSessionId) -> None:
        self.answers.put(session)

    def revoked(self, session: LeaderSessionId) -> None:
        """Do nothing, because later writes raise `LeadershipLostError`."""

    def failed(self, error: BaseException) -> None:
        self.answers.put(error)
