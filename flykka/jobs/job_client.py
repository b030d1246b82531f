"""A handle on a submitted job, for threads and for asyncio (Flink's JobClient)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from flykka.directories import absolute_directory
from flykka.errors import ClusterError, JobCancellationError, JobStoppingError, SavepointError
from flykka.jobs.checkpoint_frame import checkpoint_frame, vertex_checkpoint_frame
from flykka.jobs.client_actor import JobClientActor, JobListenerActor, JobView
from flykka.jobs.flight_record import WriteFlightRecord
from flykka.jobs.job_details import JobDetails
from flykka.jobs.job_execution_result import AccumulatorValue, JobExecutionResult, accumulator_values
from flykka.jobs.shared_overview import SharedJobOverview
from flykka.messages.ids import JobId
from flykka.messages.job import (
    CancelJob,
    CancellationFailure,
    JobStatus,
    StopJob,
    StoppingFailure,
    TriggerSavepoint,
    TriggerSavepointFailure,
)
from flykka.messages.job_graph import JobGraph
from flykka.messages.message import Message
from flykka.notebook.interrupts import interruptible, waking_loop
from flykka.runtime.errors import AskTimeoutError, SpawnRefusedError
from flykka.runtime.future import Future
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem

if TYPE_CHECKING:
    import pandas as pd

    from flykka.notebook.live_display import LiveDisplay

T = TypeVar("T")

SAVEPOINT_TIMEOUT = 600.0
"""Seconds that `trigger_savepoint` waits, as long as a checkpoint may take unless that was set."""

STOPPING_TIMEOUT = 60.0
"""Seconds that `stop` waits: the last checkpoint has to be taken, and what it holds to be published."""

LISTENERS_TIMEOUT = 5.0
"""Seconds that `wait` gives the listeners to hear the end of the job, once it has ended."""


class JobClient:
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
    ) -> None:
        self._system = system
        self._job_manager = job_manager
        self._graph = job_graph
        self._view = JobView(
            outcome=Future(system.driver), submitted=Future(system.driver), overview=SharedJobOverview(job_graph)
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
        )
        self._actor = system.spawn(props, f"job-client-{job_graph.job_id}")

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
        """What was submitted: the vertices, their operators and how they are connected."""
        return self._graph

    @property
    def status(self) -> JobStatus:
        """The last status that was heard of."""
        return self._view.status

    @property
    def exception(self) -> Exception | None:
        """What `wait` raises, once the job has ended badly; None before, and when all is well."""
        return self._view.failure

    @property
    def details(self) -> JobDetails:
        """What is known of the job now: its vertices, its last checkpoints, its restarts, its last failure."""
        return self._view.overview.details(self._system.clock.now_ms())

    def get_accumulators(self) -> dict[str, AccumulatorValue]:
        """What the functions of the job's newest attempts have counted so far, by name (Flink's getAccumulators).

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

    def done(self) -> bool:
        """Whether the job has ended, in whatever way."""
        return self._view.outcome.done()

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
        try:
            with interruptible(self.job_name):
                return self._get(self._view.outcome, timeout, f"is still {self.status}")
        finally:
            if self._view.outcome.done():
                self._wait_for_listeners()

    def cancel(self, timeout: float = 10.0) -> None:
        """Have the job cancelled; returns when the JobManager has taken that on, and `wait` when it is done.

        Raises:
            JobCancellationError: the job has ended already.
            TimeoutError: there is no answer within `timeout` seconds.
        """
        if self.done():
            raise JobCancellationError(
                f"job {self.job_name!r} ({self.job_id}) was not cancelled: it is {self.status} already"
            )
        try:
            answer = self._job_manager.ask(lambda me: CancelJob(job_id=self.job_id, client=me), timeout=timeout)
        except AskTimeoutError as late:
            raise TimeoutError(f"no answer to the cancellation of job {self.job_name!r} in {timeout} s") from late
        if isinstance(answer, CancellationFailure):
            raise JobCancellationError(f"job {self.job_name!r} ({self.job_id}): {answer.cause.message}")

    def stop(self, timeout: float = STOPPING_TIMEOUT) -> str:
        """Have the job take a last checkpoint, publish what it holds, and finish; the path of that checkpoint.

        As `stop_with_savepoint`, but what it leaves behind is a checkpoint: quicker to take, and not to be moved.
        Windows that are open stay in it, and it is kept for whoever continues from it. Returns when the job has
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
        return self._stop(timeout, savepoint_directory=self._savepoint_directory(directory), drain=drain)

    def trigger_savepoint(
        self, directory: str | PathLike[str] | None = None, timeout: float = SAVEPOINT_TIMEOUT
    ) -> str:
        """Have the job take a savepoint and go on; the path of the savepoint, which is complete when this returns.

        It is a folder as `stop_with_savepoint` makes one. It publishes nothing: what it holds for the sinks is
        published by the next checkpoint of the job, and by whoever starts from it where that has not come to be. From
        a coroutine: `await asyncio.to_thread(...)`.

        Raises:
            SavepointError: no savepoint directory is configured, the job is not running, or the savepoint failed.
            TimeoutError: it is not complete within `timeout` seconds, and may still become so.
        """
        target = self._savepoint_directory(directory)
        none_of = f"no savepoint of job {self.job_name!r} ({self.job_id})"
        if self.done():
            raise SavepointError(f"{none_of}: it is {self.status} already")
        try:
            answer = self._job_manager.ask(
                lambda me: TriggerSavepoint(job_id=self.job_id, client=me, savepoint_directory=target), timeout=timeout
            )
        except AskTimeoutError as late:
            raise TimeoutError(f"{none_of} is complete after {timeout} s") from late
        if isinstance(answer, TriggerSavepointFailure):
            raise SavepointError(f"{none_of}: {answer.cause.message}")
        path: str = answer.savepoint_path
        return path

    def add_listener(self, callback: Callable[[Message], object]) -> None:
        """Call `callback` with every message about the job, in order, on a thread of its own.

        A listener that comes late first hears what was said before it, up to the last thousand messages.

        Raises:
            ClusterError: the cluster was shut down, and nobody is left who could tell.
        """
        heard_all: Future[None] = Future(self._system.driver)
        props = Props(JobListenerActor, self._actor, callback, heard_all).with_dispatcher("pinned")
        try:
            self._system.spawn(props, f"job-listener-{self.job_id}-{len(self._listeners) + 1}")
        except SpawnRefusedError as ending:
            raise ClusterError(
                f"nothing more is told of job {self.job_name!r} ({self.job_id}): its cluster was shut down"
            ) from ending
        self._listeners.append(heard_all)

    def _ipython_display_(self) -> None:
        """Called by IPython to show the job: in a notebook live, until its end."""
        from flykka.notebook.job_text import job_text
        from flykka.notebook.live_display import LiveDisplay
        from flykka.notebook.shell import in_kernel

        if not in_kernel():
            print(job_text(self.details))
            return
        if self._live is None:
            self._live = LiveDisplay(self._view.overview, self._view.outcome, self._system.clock.now_ms)
            # Who waits for the job sees its end before the next cell begins.
            self._listeners.append(self._live.shown_last)
        self._live.show()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The job as it stands now, for whoever shows objects without IPython."""
        from flykka.notebook.live_display import job_bundle

        return job_bundle(self.details)

    def __await__(self) -> Generator[Any, None, JobExecutionResult]:
        return self._ended().__await__()

    def __repr__(self) -> str:
        return f"<JobClient {self.job_name!r} {self.job_id} {self.status}>"

    async def _ended(self) -> JobExecutionResult:
        __tracebackhide__ = True
        try:
            with interruptible(self.job_name), waking_loop():
                return await self._view.outcome
        finally:
            if self._view.outcome.done():
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
            raise JobStoppingError(
                f"job {self.job_name!r} ({self.job_id}) was not stopped: it is {self.status} already"
            )
        try:
            answer = self._job_manager.ask(
                lambda me: StopJob(job_id=self.job_id, client=me, savepoint_directory=savepoint_directory, drain=drain),
                timeout=timeout,
            )
        except AskTimeoutError as late:
            raise TimeoutError(f"job {self.job_name!r} ({self.job_id}) has not stopped after {timeout} s") from late
        if isinstance(answer, StoppingFailure):
            raise JobStoppingError(f"job {self.job_name!r} ({self.job_id}) was not stopped: {answer.cause.message}")
        # Whoever looks at the job when this returns is to see that it has finished.
        self._get(self._view.outcome, timeout, "has stopped, and has not said so")
        path: str = answer.checkpoint_path
        return path

    def _savepoint_directory(self, directory: str | PathLike[str] | None) -> str:
        chosen = directory or self._graph.checkpointing.savepoint_directory
        if chosen is None:
            raise SavepointError(
                "No savepoint directory configured. You can either specify a directory while triggering this savepoint"
                " or configure a default with set_default_savepoint_directory(...), in `flykka run` --savepoint-dir"
            )
        return absolute_directory(chosen)

    def _get(self, future: Future[T], timeout: float | None, state: str) -> T:
        __tracebackhide__ = True
        try:
            return future.get(timeout=timeout)
        except AskTimeoutError as late:
            raise TimeoutError(f"job {self.job_name!r} ({self.job_id}) {state} after {timeout} seconds") from late
