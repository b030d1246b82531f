"""The jobs of an application in a store: finds the current run of the application, and earlier results of its jobs.

A killed driver leaves its run in the store, and the next driver with the same store continues the run. Its jobs get the
same ids, which are derived from the run, the job's name and its number among the jobs with that name. Therefore a job
that has finished returns its result, and any other job continues from its latest checkpoint. After a concluded run, a
new run begins.
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
"""Seconds to wait for leadership before the user is informed that another process leads."""

CONCLUSION_TIMEOUT = 10.0
"""Seconds that a closing environment waits until its run is concluded in the store."""

_FOR_EVER = 365 * 86_400.0

_OF_THIS_PROCESS: WeakSet[HighAvailabilityServices] = WeakSet()

Notify = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifiedJob:
    """A job with its id in the application's run. It starts from `restore_path` if it has no checkpoint of its own.

    If `continues` is True, the store already contains the job, with its latest `checkpoint`. If `has_ended` is True,
    the store contains the job's result.
    """

    job_graph: JobGraph
    restore_path: str | None
    continues: bool = False
    has_ended: bool = False
    checkpoint: CompletedCheckpoint | None = None


class ApplicationJobs:
    """The jobs of one environment in the store of its cluster. Calls block the thread that executes jobs."""

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
        """Find the next job with this name in the store. Waits until this driver leads, and reports another leader.

        A stopped job gets a new id, and starts from `restore_path`, or else from the checkpoint with which it was
        stopped. With `repeats`, a finished job does the same.

        Raises:
            CheckpointError: the job cannot continue from its own latest checkpoint. The error names the operators.
            ClusterError: the store cannot be used, or belongs to another environment of this process.
        """
        run = self._request(begins_new=False, notify=notify)
        self._executed[job_graph.name] += 1
        try:
            return self._identified(run, job_graph, restore_path, allow=allow_non_restored_state, repeats=repeats)
        except HighAvailabilityError as refusal:
            raise ClusterError(f"job {job_graph.name!r} was not submitted: {refusal}") from refusal

    def end(self, *, concludes: bool) -> None:
        if not concludes:
            logger.warning("the application has not ended: when it is run again, it continues where it stopped")
            return
        try:
            answer = self._job_manager.ask(lambda me: RequestApplicationRun(reply_to=me), CONCLUSION_TIMEOUT)
            if isinstance(answer, ApplicationRunFound):
                self._store(answer).conclude_run(answer.run.run_id)
        except (AskTimeoutError, ActorDeadError, HighAvailabilityError) as failure:
            logger.warning(
                "the end of the application could not be recorded, so the next run will continue it: %s", failure
            )

    def _identified(
        self,
        current: ApplicationRunFound,
        job_graph: JobGraph,
        restore_path: str | None,
        *,
        allow: bool,
        repeats: bool,
    ) -> IdentifiedJob:
        store, name = self._store(current), job_graph.name
        retries, requested_path = 0, restore_path
        while True:
            job_id = _job_id(current.run.run_id, name, self._executed[name], retries)
            end = store.result(job_id)
            if end is None and current.run.is_concluded:
                # The run was concluded while the driver waited for its results, so the job belongs to a new run.
                current = self._request(begins_new=True, notify=logger.info)
                store, retries = self._store(current), 0
                continue
            if end is None or (_has_finished(end) and not repeats):
                break
            retries += 1
            was_stopped = end.status is JobStatus.FINISHED
            restore_path = (
                requested_path if was_stopped and requested_path is not None else end.checkpoint_path or restore_path
            )
            logger.info("job %r ended %s earlier, and is run again from %s", name, end.status, restore_path)
        identified = replace(job_graph, job_id=job_id)
        # The checkpoint of an ended job may be deleted at any moment.
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

    def _store(self, current: ApplicationRunFound) -> LeaderStore:
        return self._services.store(current.leader_session_id)

    def _request(self, *, begins_new: bool, notify: Notify) -> ApplicationRunFound:
        def request(timeout: float) -> ApplicationRunFound:
            answer = self._job_manager.ask(
                lambda me: RequestApplicationRun(reply_to=me, begins_new=begins_new), timeout
            )
            if isinstance(answer, ApplicationRunRefused):
                raise ClusterError(f"no job can be run: {answer.cause.message}")
            assert isinstance(answer, ApplicationRunFound), f"unexpected reply to the request for a run: {answer}"
            return answer

        try:
            return request(WAIT_SECONDS)
        except AskTimeoutError:
            self._refuse_to_wait_for_itself()
            notify(self._waits())
        # The other driver may run for any length of time.
        return request(_FOR_EVER)

    def _refuse_to_wait_for_itself(self) -> None:
        try:
            leads = self._services.last_session()
        except HighAvailabilityError:
            return
        if leads is not None and any(each.session == leads for each in _OF_THIS_PROCESS):
            raise ClusterError(
                f"no job can be run: another environment of this process leads in {self._services.name}; close it"
                " first, or give each environment its own store"
            )

    def _waits(self) -> str:
        try:
            run = self._services.last_run()
        except HighAvailabilityError:
            run = None
        of = "" if run is None else f" of run {run.run_id}"
        return f"waiting: another driver leads{of}; this driver takes over when the other one ends"


def _job_id(run_id: str, name: str, number: int, retries: int) -> JobId:
    text = "\0".join((run_id, name, str(number), str(retries)))
    return JobId(hashlib.sha256(text.encode()).hexdigest()[:32])


def _has_finished(end: JobEnded) -> bool:
    """Return whether the job reached the end of its input. A stopped job continues instead."""
    return end.status is JobStatus.FINISHED and end.checkpoint_path is None
