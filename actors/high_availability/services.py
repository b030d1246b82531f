"""High availability: leadership, and values that must outlive a leader (Flink's HighAvailabilityServices).

Every call may block and must run on the I/O pool (`context.pipe_to_self`), never in an actor's turn. Values are written
under a leader's session, and every write checks that this session still leads. A former leader therefore cannot change
anything, however late it writes: its call raises `LeadershipLostError`. All calls raise `StoreUnavailableError` if the
store cannot be used.

The leader gets a `LeaderStore` for its session, and each coordinator of a job its `CheckpointPointers`, whose `recover`
fences off the previous coordinator in the same way.

Everything is built on a `Backend`: small values by path, and a latch that one process holds at a time. Backends are
memory (`embedded`), a file system, or ZooKeeper (`flykka.cluster.high_availability`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import Protocol, TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4

from flykka.actors.checkpoint_storage.checkpoint_pointers import CheckpointPointers
from flykka.actors.errors import LeadershipLostError, StoreUnavailableError
from flykka.messages.control.high_availability import (
    ApplicationRun,
    LeaderInformation,
    LeaderSession,
    SubmittedJobGraph,
)
from flykka.messages.control.job_control import JobEnded
from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.ids import JobId, LeaderSessionId
from flykka.messages.wire.message import Value
from flykka.messages.wire.tags import trace_tag

_SESSION, _LEADER, _RUN = "session", "leader", "run"
_JOBS, _RESULTS = "jobs", "results"
_GRAPH = "graph"

V = TypeVar("V", bound=Value)


class LeaderContender(Protocol):
    """A contender for leadership (as in Flink). Called on other threads, never concurrently."""

    def granted(self, session: LeaderSessionId) -> None: ...

    def revoked(self, session: LeaderSessionId) -> None:
        """Called when this contender no longer leads under this session. It may be granted another session later."""

    def failed(self, error: BaseException) -> None:
        """Called when the election has failed: this contender will never lead. `error` is a `HighAvailabilityError`."""


class LatchHolder(Protocol):
    """Receives the state of a backend's latch. Called on any thread, but never concurrently."""

    def acquired(self) -> None: ...

    def lost(self) -> None:
        """Called when the latch is lost, or may be lost. The backend tries to acquire it again."""

    def failed(self, error: BaseException) -> None:
        """Called when the backend has given up and will not acquire the latch."""


class Backend(Protocol):
    """Values by path, and a latch: combines Flink's LeaderElectionDriver and StateHandleStore.

    A path consists of names separated by slashes, and has either a value or names below it. All calls raise
    `StoreUnavailableError`.
    """

    def acquire(self, holder: LatchHolder) -> None:
        """Wait for the latch without blocking, and call `holder` with its changes. Called once per backend."""

    def read(self, path: str) -> bytes | None:
        """Return the value at `path`. The latch is not needed."""

    def names(self, path: str) -> tuple[str, ...]: ...

    def write(self, path: str, data: bytes | None, expected: Mapping[str, bytes | None]) -> str | None:
        """Set the value at `path` to `data`, or remove it (None), by one atomic compare-and-set.

        The write happens only if every value in `expected` matches (None: no value). Otherwise returns the first path
        that differs. Returns None after the write. If this method raises, the write has not happened.

        Raises:
            LeadershipLostError: the latch is not held, or was given up because the outcome of the write is unknown.
        """

    def close(self) -> None:
        """Give up the latch at once."""

    @property
    def name(self) -> str: ...


def decoded(data: bytes, path: str, expected: type[V], store: str) -> V:
    try:
        value = decode(data)
    except DecodeError as error:
        raise StoreUnavailableError(f"{store}: {path} cannot be read: {error}") from error
    if not isinstance(value, expected):
        raise StoreUnavailableError(f"{store}: {path} contains a {type(value).__name__}, not a {expected.__name__}")
    return value


class HighAvailabilityServices:
    """The access of one process to the store: its part in the election, and the stored values.

    There is one contender at a time. A new contender (a JobManager that replaces a dead one) takes the place of the
    former one: the process still leads, under a new session, and the former contender can no longer write.
    """

    def __init__(self, backend: Backend, new_id: Callable[[], str] | None = None) -> None:
        """`new_id` creates the unique ids of sessions and runs."""
        self._backend = backend
        self._new_id = new_id or _random_id
        self.driver = self._new_id()
        """The id of this process, unique among all processes that have ever used the store."""
        self.rest_address: str | None = None
        """The URL of this process's REST interface, published when it leads."""
        self._lock = RLock()
        self._contender: LeaderContender | None = None
        self._has_begun = False
        self._holds_latch = False
        self._session: LeaderSessionId | None = None

    @property
    def name(self) -> str:
        return self._backend.name

    def contend(self, contender: LeaderContender) -> None:
        """Join the election. `contender` is called when it gains or loses leadership."""
        with self._lock:
            self._contender, self._session = contender, None
            if self._holds_latch:
                self._grant()
            is_first, self._has_begun = not self._has_begun, True
        if is_first:
            self._backend.acquire(self)

    def confirm(self, session: LeaderSessionId, address: str) -> None:
        leader = LeaderInformation(address=address, leader_session_id=session, rest_address=self.rest_address)
        self.store(session).write(_LEADER, leader)

    def leader(self) -> LeaderInformation | None:
        """Return the leader that was confirmed last. It may have died without a successor."""
        return self._read(_LEADER, LeaderInformation)

    def other_leader(self) -> LeaderInformation | None:
        return self.leader() if self._session is None else None

    @property
    def session(self) -> LeaderSessionId | None:
        """The session under which this process leads, according to the last notification."""
        return self._session

    def leads(self) -> bool:
        """Return whether this process leads according to the store."""
        session = self._session
        return session is not None and self.last_session() == session

    def last_session(self) -> LeaderSessionId | None:
        """Return the session of the current or last leader. The caller need not lead."""
        last = self._read(_SESSION, LeaderSession)
        return None if last is None else last.leader_session_id

    def close(self) -> None:
        """Leave the election. A leader gives up its leadership at once, and its contender is not called."""
        # Closing does not take the lock, because its holder may be waiting for the store, and closing ends that wait.
        self._contender = self._session = None
        self._backend.close()

    def acquired(self) -> None:
        with self._lock:
            self._holds_latch = True
            self._grant()

    def lost(self) -> None:
        with self._lock:
            self._holds_latch = False
            session, self._session = self._session, None
            if session is not None and (contender := self._contender) is not None:
                contender.revoked(session)

    def failed(self, error: BaseException) -> None:
        with self._lock:
            if (contender := self._contender) is not None:
                contender.failed(error)

    def _grant(self) -> None:
        if self._contender is None:
            return
        session = LeaderSessionId(self._new_id())
        try:
            self._backend.write(_SESSION, encode(LeaderSession(leader_session_id=session)), {})
        except LeadershipLostError:
            # The latch was lost right after it was acquired. `lost` follows, and `acquired` when the latch is held
            # again.
            return
        except StoreUnavailableError as error:
            self.failed(error)
            return
        self._session = session
        if (contender := self._contender) is not None:
            contender.granted(session)

    def store(self, session: LeaderSessionId) -> LeaderStore:
        return LeaderStore(self._backend, session, self._new_id)

    def last_run(self) -> ApplicationRun | None:
        """Return the run in progress, or the last run. The caller need not lead."""
        return self._read(_RUN, ApplicationRun)

    def _read(self, path: str, expected: type[V]) -> V | None:
        data = self._backend.read(path)
        return None if data is None else decoded(data, path, expected, self._backend.name)


@trace_tag("high_availability.leader_store")
class LeaderStore:
    """The store of a leader. Every write raises `LeadershipLostError` if its session no longer leads."""

    def __init__(self, backend: Backend, session: LeaderSessionId, new_id: Callable[[], str]) -> None:
        self._backend = backend
        self._session = session
        self._new_id = new_id
        self._leads: Mapping[str, bytes | None] = {_SESSION: encode(LeaderSession(leader_session_id=session))}

    @property
    def session(self) -> LeaderSessionId:
        return self._session

    def run(self) -> str:
        """Return the id of the run in progress, which another leader may have begun. If there is none, begin a new run.

        A new run deletes the jobs and results of the previous one.
        """
        last = self.read(_RUN, ApplicationRun)
        if last is not None and not last.is_concluded:
            # The run is written even if unchanged, because only the leader may take it over.
            self.write(_RUN, last)
            return last.run_id
        self.forget_jobs()
        run = ApplicationRun(run_id=self._new_id())
        self.write(_RUN, run)
        return run.run_id

    def forget_jobs(self) -> None:
        for job_id in self._job_ids(_JOBS):
            self.remove_job(job_id)
        for job_id in self._job_ids(_RESULTS):
            self.remove(f"{_RESULTS}/{_name(job_id)}")

    def conclude_run(self, run_id: str) -> None:
        """Mark the run as concluded, because the application has ended normally. The next leader begins a new run."""
        last = self.read(_RUN, ApplicationRun)
        if last is not None and last.run_id == run_id:
            self.write(_RUN, ApplicationRun(run_id=run_id, is_concluded=True))

    def put_job(self, job: SubmittedJobGraph) -> None:
        self.write(f"{_job(job.job_graph.job_id)}/{_GRAPH}", job)

    def change_job(self, job_id: JobId, change: Callable[[SubmittedJobGraph], SubmittedJobGraph]) -> None:
        path = f"{_job(job_id)}/{_GRAPH}"
        # The comparison uses the bytes that were read, because an older flykka encodes the same value differently.
        while (data := self._backend.read(path)) is not None:
            changed = change(decoded(data, path, SubmittedJobGraph, self._backend.name))
            if self.write(path, changed, {path: data}) is None:
                return

    def jobs(self) -> tuple[SubmittedJobGraph, ...]:
        """Return the stored jobs by id: jobs to continue, and jobs that have a result but are not cleaned up yet."""
        jobs = (self.job(job_id) for job_id in self._job_ids(_JOBS))
        return tuple(job for job in jobs if job is not None)

    def job(self, job_id: JobId) -> SubmittedJobGraph | None:
        return self.read(f"{_job(job_id)}/{_GRAPH}", SubmittedJobGraph)

    def remove_job(self, job_id: JobId) -> None:
        """Remove the graph, the checkpoints and the checkpoint ids of an archived job. Its result remains."""
        self.checkpoints(job_id).forget()
        self.remove(f"{_job(job_id)}/{_GRAPH}")

    def checkpoints(self, job_id: JobId) -> CheckpointPointers:
        return CheckpointPointers(self, _job(job_id))

    def put_result(self, end: JobEnded) -> None:
        """Record a job's result before any of its data is deleted. May be called again with more facts."""
        self.write(f"{_RESULTS}/{_name(end.job_id)}", end)

    def results(self) -> tuple[JobEnded, ...]:
        results = (self.result(job_id) for job_id in self._job_ids(_RESULTS))
        return tuple(end for end in results if end is not None)

    def result(self, job_id: JobId) -> JobEnded | None:
        """Return the result of a job of the current or last run, or None if the job has not ended or is unknown."""
        return self.read(f"{_RESULTS}/{_name(job_id)}", JobEnded)

    def read(self, path: str, expected: type[V]) -> V | None:
        data = self._backend.read(path)
        return None if data is None else decoded(data, path, expected, self._backend.name)

    def names(self, path: str) -> tuple[str, ...]:
        return self._backend.names(path)

    def write(self, path: str, value: Value, expected: Mapping[str, bytes | None] | None = None) -> str | None:
        return self._write(path, encode(value), expected)

    def remove(self, path: str, expected: Mapping[str, bytes | None] | None = None) -> str | None:
        return self._write(path, None, expected)

    def _write(self, path: str, data: bytes | None, expected: Mapping[str, bytes | None] | None) -> str | None:
        differs = self._backend.write(path, data, {**self._leads, **(expected or {})})
        if differs == _SESSION:
            raise LeadershipLostError(
                f"{self._backend.name}: the leader session {self._session} no longer leads; {path} was not written"
            )
        return differs

    def _job_ids(self, path: str) -> list[JobId]:
        return [JobId(unquote(name)) for name in self._backend.names(path)]


def _job(job_id: JobId) -> str:
    return f"{_JOBS}/{_name(job_id)}"


def _name(job_id: JobId) -> str:
    # The job id, which a user may choose, becomes one name in a path, and never `..`.
    return quote(job_id, safe="").replace(".", "%2E")


def _random_id() -> str:
    return uuid4().hex
