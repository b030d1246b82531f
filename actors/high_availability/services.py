"""High availability: leadership, and values that have to outlive a leader (Flink's HighAvailabilityServices).

Every call may block and belongs on the I/O pool (`context.pipe_to_self`), never in an actor's turn. What is kept is
kept under a leader's session: with every write the store looks whether that session still leads. So one that does not
can change nothing, however late it comes: it gets `LeadershipLostError`. All calls raise `StoreUnavailableError` where
the store cannot be used.

The leader gets a `LeaderStore` for its session, and each coordinator of a job its `CheckpointPointers`, which it takes
over by `recover`: in the same way it keeps out the coordinator before it.

Below all that is a `Backend`: small values by path, and a latch that one process holds at a time. Which one it is makes
no difference here: memory (`embedded_ha_services`), a file system or ZooKeeper (`flykka.cluster.high_availability`).
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
    """A contender for leadership. It is called on foreign threads, one call at a time, and makes messages of the calls.

    Flink's LeaderContender.
    """

    def granted(self, session: LeaderSessionId) -> None:
        """It leads from now on, under this session, which nobody has had before."""

    def revoked(self, session: LeaderSessionId) -> None:
        """It leads no more under this session. It may be granted another one later."""

    def failed(self, error: BaseException) -> None:
        """It will not lead: the election cannot go on. `error` is one of `HighAvailabilityError`."""


class LatchHolder(Protocol):
    """A waiter for the latch of a backend; called on any thread, but never twice at a time."""

    def acquired(self) -> None:
        """The latch is held."""

    def lost(self) -> None:
        """The latch is held no more, or perhaps not; it is being tried again."""

    def failed(self, error: BaseException) -> None:
        """It is given up."""


class Backend(Protocol):
    """Values by path, and a latch. Flink's LeaderElectionDriver and StateHandleStore in one.

    A path is names between slashes; one has a value or names below it. All calls raise `StoreUnavailableError`.
    """

    def acquire(self, holder: LatchHolder) -> None:
        """Wait for the latch, without blocking: `holder` is told. Called once."""

    def read(self, path: str) -> bytes | None:
        """The value at `path`; anybody may look."""

    def names(self, path: str) -> tuple[str, ...]:
        """Names directly below `path`, sorted."""

    def write(self, path: str, data: bytes | None, expected: Mapping[str, bytes | None]) -> str | None:
        """Compare and set, in one step: the value at `path` becomes `data`, or goes (None).

        Only where everything in `expected` is as it says (None: nothing is there); else nothing is changed, and the
        first path that differs is returned. It has happened with the return, and has not where it raises.

        Raises:
            LeadershipLostError: the latch is not held, or was given up because the write may have happened or not.
        """

    def close(self) -> None:
        """Give up the latch at once."""

    @property
    def name(self) -> str:
        """Its name in errors."""


def decoded(data: bytes, path: str, expected: type[V], store: str) -> V:
    """The value in the store. Raises `StoreUnavailableError` where it is not one of `expected`."""
    try:
        value = decode(data)
    except DecodeError as refusal:
        raise StoreUnavailableError(f"{store}: {path} cannot be read: {refusal}") from refusal
    if not isinstance(value, expected):
        raise StoreUnavailableError(f"{store}: {path} holds a {type(value).__name__}, not a {expected.__name__}")
    return value


class HighAvailabilityServices:
    """The store as one process sees it: the election that it takes part in, and the values kept there.

    There is one contender at a time. Another one (the JobManager has died and was replaced) takes its place: the
    process goes on leading, under a new session, and the former can write no more.
    """

    def __init__(self, backend: Backend, new_id: Callable[[], str] | None = None) -> None:
        """`new_id` makes the ids of sessions and runs, each another one for ever."""
        self._backend = backend
        self._new_id = new_id or _random_id
        self.driver = self._new_id()
        """This process, among all that have ever used the store."""
        self.rest_address: str | None = None
        """The URL of its REST interface, to be published when it leads."""
        self._lock = RLock()
        self._contender: LeaderContender | None = None
        self._has_begun = False
        self._holds_latch = False
        self._session: LeaderSessionId | None = None

    @property
    def name(self) -> str:
        return self._backend.name

    # The election

    def contend(self, contender: LeaderContender) -> None:
        """Take part in the election: `contender` is told when it leads, and when no more."""
        with self._lock:
            self._contender, self._session = contender, None
            if self._holds_latch:
                self._grant()
            is_first, self._has_begun = not self._has_begun, True
        if is_first:
            self._backend.acquire(self)

    def confirm(self, session: LeaderSessionId, address: str) -> None:
        """Publish where the leader is to be found. Raises `LeadershipLostError`."""
        leader = LeaderInformation(address=address, leader_session_id=session, rest_address=self.rest_address)
        self.store(session).write(_LEADER, leader)

    def leader(self) -> LeaderInformation | None:
        """The leader that has confirmed its leadership last. It may be gone, and its place not taken yet."""
        return self._read(_LEADER, LeaderInformation)

    def other_leader(self) -> LeaderInformation | None:
        """The leader as `leader` has it, where this process does not lead itself."""
        return self.leader() if self._session is None else None

    @property
    def session(self) -> LeaderSessionId | None:
        """Under which this process leads, as far as it has heard."""
        return self._session

    def leads(self) -> bool:
        """True if this process leads, by what the store has now. Raises `StoreUnavailableError`."""
        session = self._session
        return session is not None and self.last_session() == session

    def last_session(self) -> LeaderSessionId | None:
        """Under which somebody leads, or has led last; anybody may ask."""
        last = self._read(_SESSION, LeaderSession)
        return None if last is None else last.leader_session_id

    def close(self) -> None:
        """Take part no more; a leader gives its leadership up at once, and is not told."""
        # Without the lock: its holder may be waiting for the store, and is to wait no more.
        self._contender = self._session = None
        self._backend.close()

    def acquired(self) -> None:
        """The backend: this process holds the latch."""
        with self._lock:
            self._holds_latch = True
            self._grant()

    def lost(self) -> None:
        """The backend: this process does not hold the latch any more."""
        with self._lock:
            self._holds_latch = False
            session, self._session = self._session, None
            if session is not None and (contender := self._contender) is not None:
                contender.revoked(session)

    def failed(self, error: BaseException) -> None:
        """The backend: this process will not hold the latch."""
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
            # Lost as soon as acquired: `lost` comes, and `acquired` when the latch is held again.
            return
        except StoreUnavailableError as refusal:
            self.failed(refusal)
            return
        self._session = session
        if (contender := self._contender) is not None:
            contender.granted(session)

    # What is kept

    def store(self, session: LeaderSessionId) -> LeaderStore:
        return LeaderStore(self._backend, session, self._new_id)

    def last_run(self) -> ApplicationRun | None:
        """The run in progress, or the last one, where none is; anybody may ask."""
        return self._read(_RUN, ApplicationRun)

    def _read(self, path: str, expected: type[V]) -> V | None:
        data = self._backend.read(path)
        return None if data is None else decoded(data, path, expected, self._backend.name)


@trace_tag("high_availability.leader_store")
class LeaderStore:
    """The store of a leader. Every write raises `LeadershipLostError` where its session no longer leads."""

    def __init__(self, backend: Backend, session: LeaderSessionId, new_id: Callable[[], str]) -> None:
        self._backend = backend
        self._session = session
        self._new_id = new_id
        self._leads: Mapping[str, bytes | None] = {_SESSION: encode(LeaderSession(leader_session_id=session))}

    @property
    def session(self) -> LeaderSessionId:
        return self._session

    # The application run

    def run(self) -> str:
        """The id of the run in progress, which somebody else may have begun; otherwise a new one begins.

        What was kept of the run before goes then, its jobs and their results.
        """
        last = self.read(_RUN, ApplicationRun)
        if last is not None and not last.is_concluded:
            # Its next owner must lead.
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
        """The application has ended in order: the next leader begins a new run. A run of another id is left alone."""
        last = self.read(_RUN, ApplicationRun)
        if last is not None and last.run_id == run_id:
            self.write(_RUN, ApplicationRun(run_id=run_id, is_concluded=True))

    # Jobs

    def put_job(self, job: SubmittedJobGraph) -> None:
        self.write(f"{_job(job.job_graph.job_id)}/{_GRAPH}", job)

    def change_job(self, job_id: JobId, change: Callable[[SubmittedJobGraph], SubmittedJobGraph]) -> None:
        """Apply a change to the stored job, if there is one. A write of another thread meanwhile is not lost."""
        path = f"{_job(job_id)}/{_GRAPH}"
        # As it was read: what an older flykka has written is encoded in another way now.
        while (data := self._backend.read(path)) is not None:
            changed = change(decoded(data, path, SubmittedJobGraph, self._backend.name))
            if self.write(path, changed, {path: data}) is None:
                return

    def jobs(self) -> tuple[SubmittedJobGraph, ...]:
        """All jobs that are kept, in the order of their ids: those to go on with, and those that were being put away.

        The latter have a result.
        """
        there = (self.job(job_id) for job_id in self._job_ids(_JOBS))
        return tuple(job for job in there if job is not None)

    def job(self, job_id: JobId) -> SubmittedJobGraph | None:
        return self.read(f"{_job(job_id)}/{_GRAPH}", SubmittedJobGraph)

    def remove_job(self, job_id: JobId) -> None:
        """Forget a job that is put away: its graph, its checkpoints and their ids, but not its result."""
        self.checkpoints(job_id).forget()
        self.remove(f"{_job(job_id)}/{_GRAPH}")

    def checkpoints(self, job_id: JobId) -> CheckpointPointers:
        return CheckpointPointers(self, _job(job_id))

    # Results

    def put_result(self, end: JobEnded) -> None:
        """Note how a job has ended, before anything of it is put away; again, when more is known."""
        self.write(f"{_RESULTS}/{_name(end.job_id)}", end)

    def results(self) -> tuple[JobEnded, ...]:
        """All results that are kept, in the order of the ids of their jobs."""
        there = (self.result(job_id) for job_id in self._job_ids(_RESULTS))
        return tuple(end for end in there if end is not None)

    def result(self, job_id: JobId) -> JobEnded | None:
        """The result of a job of the run, or of the last one; None where it has not ended, or is not known."""
        return self.read(f"{_RESULTS}/{_name(job_id)}", JobEnded)

    # What the parts of it are made of

    def read(self, path: str, expected: type[V]) -> V | None:
        data = self._backend.read(path)
        return None if data is None else decoded(data, path, expected, self._backend.name)

    def names(self, path: str) -> tuple[str, ...]:
        return self._backend.names(path)

    def write(self, path: str, value: Value, expected: Mapping[str, bytes | None] | None = None) -> str | None:
        """Set the value at `path`, where everything `expected` is there; otherwise the first path that differs."""
        return self._write(path, encode(value), expected)

    def remove(self, path: str, expected: Mapping[str, bytes | None] | None = None) -> str | None:
        """Remove the value at `path`, if it is there; as `write`."""
        return self._write(path, None, expected)

    def _write(self, path: str, data: bytes | None, expected: Mapping[str, bytes | None] | None) -> str | None:
        differs = self._backend.write(path, data, {**self._leads, **(expected or {})})
        if differs == _SESSION:
            raise LeadershipLostError(
                f"{self._backend.name}: the leader session {self._session} leads no more; {path} was not written"
            )
        return differs

    def _job_ids(self, path: str) -> list[JobId]:
        return [JobId(unquote(name)) for name in self._backend.names(path)]


def _job(job_id: JobId) -> str:
    return f"{_JOBS}/{_name(job_id)}"


def _name(job_id: JobId) -> str:
    # What a user may have called a job is one name in a path, and never `..`.
    return quote(job_id, safe="").replace(".", "%2E")


def _random_id() -> str:
    return uuid4().hex
