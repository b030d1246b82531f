"""A handle on a submitted job, for threads and for asyncio (Flink's JobClient)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.client.client_actor import JobClientActor, JobListenerActor
from flykka.client.flight_record import WriteFlightRecord
from flykka.client.frames import checkpoint_frame, metric_frame, vertex_checkpoint_frame
from flykka.client.job_execution_result import AccumulatorValue, JobExecutionResult, accumulator_values
from flykka.client.job_manager_gateway import JobManagerGateway
from flykka.client.job_requests import JobRequests
from flykka.client.job_rescaling import JobRescaling
from flykka.client.job_snapshots import JobSnapshots
from flykka.client.job_view import JobView
from flykka.client.listening import EVERYTHING, Attached, listening_behaviour
from flykka.client.state_queries import StateQueries
from flykka.diagnosis.collection import TIME_LIMIT, collect_reports
from flykka.diagnosis.exception_history import JobExceptionHistory
from flykka.diagnosis.job_diagnosis import JobDiagnosis, diagnose
from flykka.errors import ClusterError, JobCancellationError, JobStoppingError
from flykka.ipython import interruptible, waking_loop
from flykka.messages.control.job import JobStatus, ListeningBehaviour, RegisterJobClient
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.job_details import JobDetails
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.runtime.errors import AskTimeoutError, SpawnRefusedError
from flykka.runtime.futures.future import Future
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem

if TYPE_CHECKING:
    import pandas as pd

    from flykka.views.live_display import LiveDisplay

T = TypeVar("T")

STOPPING_TIMEOUT = 60.0
"""Seconds that `stop` waits: the last checkpoint has to be taken, and what it holds to be published."""

DETAILS_TIMEOUT = 5.0
"""Seconds that `details` waits for the JobManager, until it says what was known last."""

LIVE_CHECKPOINTS = 100
"""The number of checkpoints in a picture that is drawn again and again."""

ATTACH_TIMEOUT = 10.0
"""Seconds that a detached client waits for the details of its job."""

LISTENERS_TIMEOUT = 5.0
"""Seconds that `wait` gives the listeners to hear the end of the job, once it has ended."""

_NUMBERS = count(1)
"""Of the clients that come back to a job."""


class JobClient(StateQueries, JobSnapshots, JobRescaling):
    """Made by `execute_async`. Every method may be called from any thread.

    `await client` is `wait` for coroutines: the same result, the same errors, and the listeners have heard of the end.
    """

    def __init__(
        self,
        system: ActorSystem,
        job_manager: ActorRef,
        job_graph: JobGraph,
        restore_path: str | None = None,
        write_flight_record: WriteFlightRecord | None = None,
        *,
        allow_non_restored_state: bool = False,
        attached: Attached = True,
        submits: bool = True,
    ) -> None:
        """Submit the job, or come back to one, and hear of it. Raises `ClusterError` where there is no cluster."""
        self._behaviour = listening_behaviour(attached)
        if self._behaviour is ListeningBehaviour.DETACHED:
            job_graph = replace(job_graph, client_heartbeat=None)  # Its job is to outlive it.
        self._system = system
        self._requests = JobRequests(JobManagerGateway(system, job_manager), job_graph)
        self._graph = job_graph
        driver = system.driver
        self._view = JobView(
            outcome=Future(driver),
            submitted=Future(driver),
            attached=Future(driver),
            details=JobReadModel(job_graph).details(system.clock.now_ms()),
        )
        self._listeners: list[Future[None]] = []
        self._live: LiveDisplay | None = None
        props = Props(
            JobClientActor,
            job_manager,
            job_graph,
            self._view,
            restore_path,
            write_flight_record,
            allow_non_restored_state=allow_non_restored_state,
            listening_behaviour=self._behaviour,
            submits=submits,
        )
        number = "" if submits else f"-{next(_NUMBERS)}"
        try:
            self._actor = system.spawn(props, f"job-client-{job_graph.job_id}{number}")
        except SpawnRefusedError:
            raise ClusterError(f"job {job_graph.name!r} has no cluster to run on: it was shut down") from None

    @property
    def job_id(self) -> JobId:
        """The id under which the job was submitted."""
        return self._graph.job_id

    @property
    def job_name(self) -> str:
        """The name under which the job was submitted."""
        return self._graph.name

    @property
    def job_graph(self) -> JobGraph:
        """The submitted graph: the vertices, their operators and how they are connected."""
        return self._graph

    @property
    def status(self) -> JobStatus:
        """The last status that was heard of."""
        self._attach()
        return self._view.status

    def exception(self) -> Exception | None:
        """Return the error that `wait` raises once the job has failed; None before, and when all is well.

        Its text begins with the lines of your own code; what the job has overcome is in `exception_history`.
        """
        self._attach(to_result=True)
        return self._view.failure

    @property
    def details(self) -> JobDetails:
        """The job as it stands now: its vertices, its last checkpoints, its restarts, its last failure.

        Where its cluster has ended: as it stood when it was asked last.
        """
        if self._view.is_final:
            return self._view.details
        return self._view.note(self._requests.details(DETAILS_TIMEOUT))

    def details_with(self, checkpoints: int) -> JobDetails:
        """As `details`, with so many of the last checkpoints: for a display that asks again and again."""
        if self._view.is_final:
            return self._view.details
        return self._requests.details(DETAILS_TIMEOUT, checkpoints) or self._view.details

    def get_accumulators(self) -> dict[str, AccumulatorValue]:
        """Return the accumulators of the job's newest attempts so far, by name (Flink's getAccumulators).

        Raises:
            AccumulatorError: an accumulator is of different kinds in two places.
        """
        return accumulator_values(self.details.accumulators, self.job_name)

    @property
    def checkpoints(self) -> pd.DataFrame:
        """A row per checkpoint that has completed or was given up, the last thousand of them, the oldest first.

        Columns: checkpoint_id, status, triggered, ended, duration_ms, size_bytes, incremental_bytes, path, reason.
        """
        return checkpoint_frame(self.details.checkpoints)

    @property
    def checkpoint_vertices(self) -> pd.DataFrame:
        """A row per completed checkpoint and vertex: what its subtasks measured.

        Columns: checkpoint_id, vertex, subtasks, duration_ms; size_bytes and incremental_bytes; processed_bytes and
        persisted_bytes, while barriers came together; and, on average and at most (`_avg`, `_max`), start_delay_ms,
        alignment_ms, sync_ms and async_ms.
        """
        details = self.details
        return vertex_checkpoint_frame(
            details.checkpoints, {vertex.vertex_id: vertex.name for vertex in details.vertices}
        )

    @property
    def metrics(self) -> pd.DataFrame:
        """A row per metric as it stands now, of the job, its subtasks, their chains and your functions.

        Columns: at (the time it was asked), scope, name, vertex, operator, subtask, task_manager, attempt, value. The
        scopes, names and values are those of the REST interface and of /metrics. Once the job has ended they are those
        of its end.

        Raises:
            ClusterError: its cluster was shut down, or has forgotten the job.
            TimeoutError: the JobManager does not answer within 10 seconds.
        """
        now_ms = self._system.clock.now_ms()
        return metric_frame(self._requests.measured(now_ms), now_ms)

    @property
    def exception_history(self) -> JobExceptionHistory:
        """Return the job's last failures, the oldest first, each with how the job went on."""
        return JobExceptionHistory.from_details(self.details)

    def why(self, timeout: float = TIME_LIMIT) -> JobDiagnosis:
        """Diagnose why the job does not go on, or what it does: which task waits for which. Its text is one screen.

        Every actor of the job is asked and has `timeout` seconds for the answer; one that is stuck is told as such. The
        answer is there after twice that time at the latest.
        """
        return diagnose(collect_reports(self._system, self._view.details, timeout))

    def done(self) -> bool:
        """True if the job has ended, in whatever way."""
        hears_result = self._behaviour is not ListeningBehaviour.DETACHED
        if hears_result or not self._view.submitted.done() or self._view.outcome.done():
            return self._view.outcome.done()
        # A detached client hears nothing by itself, and may ask.
        return self._requests.has_ended()

    def wait_submitted(self, timeout: float | None = None) -> JobId:
        """Wait until the JobManager has taken the job.

        Raises:
            JobSubmissionError: it was refused.
            TimeoutError: there is no answer within `timeout` seconds.
        """
        return self._get(self._view.submitted, timeout, "is not yet accepted")

    def wait(self, timeout: float | None = None) -> JobExecutionResult:
        """Wait until the job has ended and the listeners have heard of it.

        Raises:
            JobExecutionError: it has failed, or was lost with its cluster.
            JobCancelledError: it was cancelled.
            JobSubmissionError: it was refused.
            TimeoutError: it still runs after `timeout` seconds.
        """
        __tracebackhide__ = True  # In IPython a failure of the job points to the user's line, not to these.
        self._attach(to_result=True)
        try:
            with interruptible(self.job_name):
                hint = "; its why() says what it waits for"
                state = f"is still {self._view.status}" if self._behaviour is EVERYTHING else "has not ended"
                return self._get(self._view.outcome, timeout, state, hint)
        finally:
            if self._view.outcome.done():
                self._requests.await_archive()
                self._wait_for_listeners()

    def cancel(self, timeout: float = 10.0) -> None:
        """Have the job cancelled; returns when the JobManager has taken that on, and `wait` when it is done.

        Raises:
            JobCancellationError: the job has ended already.
            TimeoutError: there is no answer within `timeout` seconds.
        """
        if self.done():
            raise JobCancellationError(f"{self._named} was not cancelled: it is {self.status} already")
        self._requests.cancel(timeout)

    def stop(self, timeout: float = STOPPING_TIMEOUT) -> str:
        """Have the job take a last checkpoint, publish what it holds, and finish; the path of that checkpoint.

        As `stop_with_savepoint`, but what it leaves behind is a checkpoint: quicker to take, and not to be moved.
        Windows that are open stay in it, and it is kept for a job that continues from it. Returns when the job has
        FINISHED; a stop that fails leaves the job running.

        Raises:
            JobStoppingError: the job was not stopped: it is not running, it failed meanwhile, or its checkpoint did.
            TimeoutError: it has not stopped within `timeout` seconds, and may still do so.
        """
        return self._stop(timeout, savepoint_directory=None, drain=False)

    def stop_with_savepoint(
        self, directory: str | PathLike[str] | None = None, drain: bool = False, timeout: float = STOPPING_TIMEOUT
    ) -> str:
        """Have the job take a savepoint, publish what it holds, and finish; the path of the savepoint.

        It is a folder below `directory` (else the default savepoint directory) that holds everything, may be moved,
        and is never deleted by a job: start from it with `from_savepoint`. Windows that are open stay in it; with
        `drain` they fire first, as at the end of the input: for a job that is not meant to go on. Returns when the job
        has FINISHED; a stop that fails leaves the job running. From a coroutine: `await asyncio.to_thread(...)`.

        Raises:
            SavepointError: no savepoint directory is configured.
            JobStoppingError: the job was not stopped: it is not running, stops otherwise already, or failed meanwhile,
                or the savepoint did.
            TimeoutError: it has not stopped within `timeout` seconds, and may still do so.
        """
        return self._stop(timeout, savepoint_directory=self._requests.savepoint_directory(directory), drain=drain)

    def add_listener(self, callback: Callable[[Message], object]) -> None:
        """Call `callback` with every message about the job, in order, on a thread of its own.

        A listener that comes late first hears what was said before it, up to the last thousand messages.

        Raises:
            ClusterError: the cluster was shut down, and nobody is left who could tell.
        """
        self._attach(waits=False)
        heard_all: Future[None] = Future(self._system.driver)
        props = Props(JobListenerActor, self._actor, callback, heard_all).with_dispatcher("pinned")
        try:
            self._system.spawn(props, f"job-listener-{self.job_id}-{len(self._listeners) + 1}")
        except SpawnRefusedError as ending:
            raise ClusterError(f"nothing more is told of {self._named}: its cluster was shut down") from ending
        self._listeners.append(heard_all)

    def _ipython_display_(self) -> None:
        """Called by IPython to show the job: in a notebook live, until its end."""
        from flykka.ipython import in_kernel
        from flykka.views.job_text import job_text
        from flykka.views.live_display import LiveDisplay

        if not in_kernel():
            print(job_text(self.details))
            return
        if self._live is None:
            self._live = LiveDisplay(
                lambda: self.details_with(LIVE_CHECKPOINTS), self._view.outcome, lambda: self._view.news
            )
            # Who waits for the job sees its end before the next cell begins.
            self._listeners.append(self._live.shown_last)
        self._live.show()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The job as it stands now, for displays without IPython."""
        from flykka.views.live_display import job_bundle

        return job_bundle(self.details)

    def _attach(self, *, waits: bool = True, to_result: bool = False) -> None:
        """From now on hear of the job, for somebody wants to know; who hears of its result may be content with that."""
        hears_result = self._behaviour is not ListeningBehaviour.DETACHED
        if self._behaviour is EVERYTHING or (to_result and hears_result) or self._view.outcome.done():
            return
        self._behaviour = EVERYTHING
        self._actor.tell(RegisterJobClient(job_id=self.job_id, client=self._actor, listening_behaviour=EVERYTHING))
        if waits:
            self._get(self._view.attached, ATTACH_TIMEOUT, "has not answered")

    def __await__(self) -> Generator[Any, None, JobExecutionResult]:
        return self._ended().__await__()

    def __repr__(self) -> str:
        return f"<JobClient {self.job_name!r} {self.job_id} {self.status}>"

    async def _ended(self) -> JobExecutionResult:
        __tracebackhide__ = True
        self._attach(waits=False, to_result=True)
        try:
            with interruptible(self.job_name), waking_loop():
                return await self._view.outcome
        finally:
            if self._view.outcome.done():
                await asyncio.to_thread(self._requests.await_archive)
                await self._listeners_have_heard()

    async def _listeners_have_heard(self) -> None:
        # As `_wait_for_listeners`, with the loop free for others meanwhile.
        with suppress(TimeoutError):
            async with asyncio.timeout(LISTENERS_TIMEOUT):
                for heard_all in self._listeners:
                    await heard_all

    def _wait_for_listeners(self) -> None:
        deadline = time.monotonic() + LISTENERS_TIMEOUT
        for heard_all in self._listeners:
            try:
                heard_all.get(timeout=max(0.0, deadline - time.monotonic()))
            except AskTimeoutError:
                # A listener that does not return holds its own news back, not the job's result.
                return

    def _stop(self, timeout: float, *, savepoint_directory: str | None, drain: bool) -> str:
        if self.done():
            raise JobStoppingError(f"{self._named} was not stopped: it is {self.status} already")
        path = self._requests.stop(timeout, savepoint_directory, drain=drain)
        # A look at the job when this has returned is to show that it has finished.
        self._get(self._view.outcome, timeout, "has stopped, and has not said so")
        self._requests.await_archive()
        return path

    def _get(self, future: Future[T], timeout: float | None, state: str, hint: str = "") -> T:
        __tracebackhide__ = True
        try:
            return future.get(timeout=timeout)
        except AskTimeoutError as late:
            raise TimeoutError(f"{self._named} {state} after {timeout} seconds{hint}") from late
