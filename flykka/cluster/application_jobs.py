"""The jobs of an application in a store: which run of the application this is, and what became of its jobs before.

A driver that is killed leaves its run in the store. The next one that is started with the same store goes on with it:
its jobs have the same ids, made of the run, their name and which of that name it is. So what had finished is answered
with its result, and what had not goes on from its latest checkpoint. A run that was concluded is followed by a new one.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakSet

from flykka.actors.errors import HighAvailabilityError
from flykka.actors.high_availability.services import HighAvailabilityServices, LeaderStore
from flykka.client.checkpoints import check_restorable, find_checkpoint
from flykka.client.job_manager_gateway import JobManagerGateway
from flykka.errors import ClusterError
from flykka.messages.checkpointing.checkpoint import CompletedCheckpoint
from flykka.messages.control.job import JobStatus
from flykka.messages.control.job_control import JobEnded
from flykka.messages.control.job_manager import ApplicationRunFound, ApplicationRunRefused, RequestApplicationRun
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.ids import JobId
from flykka.runtime.errors import ActorDeadError, AskTimeoutError

logger = logging.getLogger("flykka")

WAIT_SECONDS = 1.0
"""Seconds that leadership may take before the user is told that another process has it."""

CONCLUSION_TIMEOUT = 10.0
"""Seconds that an environment which is closed has to say so to its store."""

_FOR_EVER = 365 * 86_400.0

_OF_THIS_PROCESS: WeakSet[HighAvailabilityServices] = WeakSet()

Notify = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifiedJob:
    """A job under the id that it has in its run, and where it starts from if it has no checkpoint of its own.

    One that `continues` is in the store already; `checkpoint` is its own latest. One that `has_ended` is there with its
    result.
    """

    job_graph: JobGraph
    restore_path: str | None
    continues: bool = False
    has_ended: bool = False
    checkpoint: CompletedCheckpoint | None = None


class ApplicationJobs:
    """Of one environment, whose cluster has these services. Used by the thread that executes, and blocks it."""

    def __init__(self, services: HighAvailabilityServices, job_manager: JobManagerGateway) -> None:
        _OF_THIS_PROCESS.add(services)
        self._services = services
        self._job_manager = job_manager
        self._executed: Counter[str] = Counter()

    def identify(
        self,
        job_graph: JobGraph,
        restore_path: str | None,
        *,
        allow_non_restored_state: bool,
        notify: Notify,
        repeats: bool = False,
    ) -> IdentifiedJob:
        """The next job of this name. Waits until this driver leads, and says so once where another one does.

        What was stopped is another job from then on, which starts from `restore_path`, or else from where it was
        stopped. With `repeats` that holds for what has finished too.

        Raises:
            CheckpointError: it cannot go on from its own latest checkpoint; the text names the operators.
            ClusterError: the store cannot be used, or belongs to another environment of this process.
        """
        found = self._request(begins_new=False, notify=notify)
        self._executed[job_graph.name] += 1
        try:
            return self._identified(found, job_graph, restore_path, allow=allow_non_restored_state, repeats=repeats)
        except HighAvailabilityError as refusal:
            raise ClusterError(f"job {job_graph.name!r} was not submitted: {refusal}") from refusal

    def end(self, *, concludes: bool) -> None:
        """End the application: in order, so that its next run starts from the beginning, or not. It is logged."""
        if not concludes:
            logger.warning("the application has not ended in order: run again, it goes on where it was left")
            return
        try:
            answer = self._job_manager.ask(lambda me: RequestApplicationRun(reply_to=me), CONCLUSION_TIMEOUT)
            if isinstance(answer, ApplicationRunFound):
                self._store(answer).conclude_run(answer.run.run_id)
        except (AskTimeoutError, ActorDeadError, HighAvailabilityError) as failure:
            logger.warning("the end of the application could not be noted, and a rerun will go on with it: %s", failure)

    def _identified(
        self,
        found: ApplicationRunFound,
        job_graph: JobGraph,
        restore_path: str | None,
        *,
        allow: bool,
        repeats: bool,
    ) -> IdentifiedJob:
        store, name = self._store(found), job_graph.name
        retries, named = 0, restore_path
        while True:
            job_id = _job_id(found.run.run_id, name, self._executed[name], retries)
            end = store.result(job_id)
            if end is None and found.run.is_concluded:
                # Not a job of the run whose results were waited for: it is one of a new run.
                found = self._request(begins_new=True, notify=logger.info)
                store, retries = self._store(found), 0
                continue
            if end is None or (_has_finished(end) and not repeats):
                break
            retries += 1
            was_stopped = end.status is JobStatus.FINISHED
            restore_path = named if was_stopped and named is not None else end.checkpoint_path or restore_path
            logger.info("job %r has ended %s before, and is run again from %s", name, end.status, restore_path)
        identified = replace(job_graph, job_id=job_id)
        # That of a job which has ended may be deleted at this moment.
        pointer, checkpoint = None if end is not None else store.checkpoints(job_id).latest(), None
        if pointer is not None:
            checkpoint = find_checkpoint(pointer.path, job_graph.checkpointing.directory)
            check_restorable(checkpoint, identified, allow_non_restored_state=allow)
        return IdentifiedJob(
            job_graph=identified,
            restore_path=restore_path,
            continues=store.job(job_id) is not None,
            has_ended=end is not None,
            checkpoint=checkpoint,
        )

    def _store(self, found: ApplicationRunFound) -> LeaderStore:
        return self._services.store(found.leader_session_id)

    def _request(self, *, begins_new: bool, notify: Notify) -> ApplicationRunFound:
        def asked(timeout: float) -> ApplicationRunFound:
            answer = self._job_manager.ask(
                lambda me: RequestApplicationRun(reply_to=me, begins_new=begins_new), timeout
            )
            if isinstance(answer, ApplicationRunRefused):
                raise ClusterError(f"no job can be run: {answer.cause.message}")
            assert isinstance(answer, ApplicationRunFound), f"a run is not asked for with {answer}"
            return answer

        try:
            return asked(WAIT_SECONDS)
        except AskTimeoutError:
            self._refuse_to_wait_for_itself()
            notify(self._waits())
        # Nobody knows how long the other one lives.
        return asked(_FOR_EVER)

    def _refuse_to_wait_for_itself(self) -> None:
        """Refuse to wait for leadership that another environment of this process holds."""
        try:
            leads = self._services.last_session()
        except HighAvailabilityError:
            return
        if leads is not None and any(each.session == leads for each in _OF_THIS_PROCESS):
            raise ClusterError(
                f"no job can be run: another environment of this process leads in {self._services.name}; close that one"
                " before, or give each environment a store of its own"
            )

    def _waits(self) -> str:
        try:
            run = self._services.last_run()
        except HighAvailabilityError:
            run = None
        of = "" if run is None else f" of run {run.run_id}"
        return f"waiting: another driver leads{of}; this one takes over when that one ends"


def _job_id(run_id: str, name: str, number: int, retries: int) -> JobId:
    text = "\0".join((run_id, name, str(number), str(retries)))
    return JobId(hashlib.sha256(text.encode()).hexdigest()[:32])


def _has_finished(end: JobEnded) -> bool:
    """True if it has come to the end of its input; a job that was stopped is to be continued."""
    return end.status is JobStatus.FINISHED and end.checkpoint_path is None
