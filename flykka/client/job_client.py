"""A handle of a submitted job, for threads and for asyncio (Flink's JobClient)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from itertools import count
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from flykka.actors.machines.read_model.job_read_model import JobReadModel
from flykka.client.client_actor import (
    EVERYTHING,
    Attached,
    JobClientActor,
    JobListenerActor,
    JobView,
    listening_behaviour,
)
from flykka.client.directories import absolute_directory
from flykka.client.flight_record import WriteFlightRecord
from flykka.client.frames import checkpoint_frame, metric_frame, vertex_checkpoint_frame
from flykka.client.job_execution_result import AccumulatorValue, JobExecutionResult, accumulator_values
from flykka.client.job_manager_gateway import LOOK_TIMEOUT, JobManagerGateway, NotKnownError, RequestRefusedError
from flykka.client.resource_requirements import Bounds, bounds_of
from flykka.client.saved_state import read_state
from flykka.diagnosis.collection import TIME_LIMIT, collect_reports
from flykka.diagnosis.exception_history import JobExceptionHistory
from flykka.diagnosis.job_diagnosis import JobDiagnosis, diagnose
from flykka.errors import (
    CheckpointError,
    ClusterError,
    FlykkaError,
    JobCancellationError,
    JobExecutionError,
    JobStoppingError,
    RescaleError,
    SavepointError,
)
from flykka.ipython import interruptible, waking_loop
from flykka.messages.checkpointing.statistics import CheckpointStatsStatus
from flykka.messages.control.job import CheckpointType, JobStatus, ListeningBehaviour, RegisterJobClient
from flykka.messages.control.rescaling import Rescale
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.monitoring.job_details import CHECKPOINT_HISTORY, AwaitArchives, JobDetails, RequestJobDetails
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.metrics.collection import Scope, collect_job
from flykka.runtime.errors import ActorDeadError, AskFailedError, AskTimeoutError, SpawnRefusedError
from flykka.runtime.futures.future import Future
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from flykka.spark_bridge.errors import SavedStateError

if TYPE_CHECKING:
    import pandas as pd

    from flykka.views.live_display import LiveDisplay

T = TypeVar("T")

STOPPING_TIMEOUT = 60.0
"""Seconds that `stop` waits for the last checkpoint and the publication of its output."""

DETAILS_TIMEOUT = 5.0
"""Seconds that `details` waits for the JobManager before it returns the last known state."""

LIVE_CHECKPOINTS = 100

ATTACH_TIMEOUT = 10.0
"""Seconds that a detached client waits for the details of its job."""

LISTENERS_TIMEOUT = 5.0
"""Seconds that `wait` gives listeners to receive the end of the job."""

SNAPSHOT_TIMEOUT = 600.0
"""Seconds that a client waits for a checkpoint, equal to the default checkpoint timeout."""

RESCALE_TIMEOUT = 10.0
"""Seconds that a client waits for the confirmation of new requirements."""

_ATTEMPTS = 5
"""The number of attempts to query state. A checkpoint may be subsumed and deleted while it is being read."""

_HERE = "localhost"
"""The host of all metrics, because all actors are in this process."""

_NUMBERS = count(1)


class JobClient:
    """A handle of a submitted job, returned by `execute_async`. Every method may be called from any thread.

    In coroutines, `await client` is like `wait`: it has the same result and errors, and waits for the listeners.
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
        """Submit the job, or attach to a running one. Raises `ClusterError` without a cluster."""
        self._behaviour = listening_behaviour(attached)
        if self._behaviour is ListeningBehaviour.DETACHED:
            job_graph = replace(job_graph, client_heartbeat=None)  # The job continues if its client dies.
        self._system = system
        self._job_manager = JobManagerGateway(system, job_manager)
        self._graph = job_graph
        self._label = f"job {job_graph.name!r} ({job_graph.job_id})"
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
        """The id of the submitted job."""
        return self._graph.job_id

    @property
    def job_name(self) -> str:
        """The name of the submitted job."""
        return self._graph.name

    @property
    def job_graph(self) -> JobGraph:
        """The submitted graph: the vertices, their operators and their connections."""
        return self._graph

    @property
    def status(self) -> JobStatus:
        """The last known status."""
        self._attach()
        return self._view.status

    def exception(self) -> Exception | None:
        """The error that `wait` raises after the job has failed. None before the end, and after success.

        Its message begins with the lines of your own code. Failures after which the job restarted are in
        `exception_history`.
        """
        self._attach(to_result=True)
        return self._view.failure

    @property
    def details(self) -> JobDetails:
        """The current state of the job: its vertices, last checkpoints, restarts and last failure.

        After the cluster has terminated, this is the last known state.
        """
        if self._view.is_final:
            return self._view.details
        return self._view.note(self._ask_for_details(CHECKPOINT_HISTORY))

    def details_with(self, checkpoints: int) -> JobDetails:
        """Return `details` with a limited number of checkpoints, for displays that poll."""
        if self._view.is_final:
            return self._view.details
        return self._ask_for_details(checkpoints) or self._view.details

    def get_accumulators(self) -> dict[str, AccumulatorValue]:
        """Return the current accumulators of the job's latest attempts, by name (Flink's getAccumulators).

        Raises:
            AccumulatorError: an accumulator has different types in different functions.
        """
        return accumulator_values(self.details.accumulators, self.job_name)

    @property
    def checkpoints(self) -> pd.DataFrame:
        """The last thousand completed or aborted checkpoints as a DataFrame, oldest first.

        Columns: checkpoint_id, status, triggered, ended, duration_ms, size_bytes, incremental_bytes, path, reason.
        """
        return checkpoint_frame(self.details.checkpoints)

    @property
    def checkpoint_vertices(self) -> pd.DataFrame:
        """The checkpoint statistics of the vertices as a DataFrame, with a row per completed checkpoint and vertex.

        Columns: checkpoint_id, vertex, subtasks, duration_ms; size_bytes and incremental_bytes; processed_bytes and
        persisted_bytes during alignment; and, as average and maximum (`_avg`, `_max`), start_delay_ms, alignment_ms,
        sync_ms and async_ms.
        """
        details = self.details
        return vertex_checkpoint_frame(
            details.checkpoints, {vertex.vertex_id: vertex.name for vertex in details.vertices}
        )

    @property
    def metrics(self) -> pd.DataFrame:
        """The current metrics of the job, its subtasks, operators and functions as a DataFrame, with a row per metric.

        Columns: at (the time of the request), scope, name, vertex, operator, subtask, task_manager, attempt, value.
        Scopes, names and values are those of the REST interface and of /metrics. After the end of the job, these are
        the final values.

        Raises:
            ClusterError: the cluster was shut down, or no longer knows the job.
            TimeoutError: the JobManager does not reply within 10 seconds.
        """
        now_ms = self._system.clock.now_ms()
        with self._information_errors():
            measured = collect_job(self._job_manager, self.job_id, Scope.SUBTASK, _HERE, now_ms)
            return metric_frame(measured, now_ms)

    @property
    def exception_history(self) -> JobExceptionHistory:
        """The job's last failures, oldest first, each with its consequence."""
        return JobExceptionHistory.from_details(self.details)

    def why(self, timeout: float = TIME_LIMIT) -> JobDiagnosis:
        """Diagnose why the job makes no progress: report each task's activity, and which task waits for which.

        Every actor of the job has `timeout` seconds to reply. Actors that do not reply are listed as stuck. Returns
        after at most twice that time. The text of the diagnosis fits on one screen.
        """
        return diagnose(collect_reports(self._system, self._view.details, timeout))

    def done(self) -> bool:
        """Return whether the job has ended, successfully or not."""
        hears_result = self._behaviour is not ListeningBehaviour.DETACHED
        if hears_result or not self._view.submitted.done() or self._view.outcome.done():
            return self._view.outcome.done()
        # A detached client receives no result, so it asks the JobManager.
        return self._job_manager.running_graph(self.job_id) is None

    def wait_submitted(self, timeout: float | None = None) -> JobId:
        """Wait until the JobManager has accepted the job.

        Raises:
            JobSubmissionError: the job was refused.
            TimeoutError: no reply arrives within `timeout` seconds.
        """
        return self._get(self._view.submitted, timeout, "is not yet accepted")

    def wait(self, timeout: float | None = None) -> JobExecutionResult:
        """Wait until the job has ended and its listeners have been notified. Returns its result.

        Raises:
            JobExecutionError: the job failed, or was lost with its cluster.
            JobCancelledError: the job was cancelled.
            JobSubmissionError: the job was refused.
            TimeoutError: the job is still running after `timeout` seconds.
        """
        __tracebackhide__ = True  # In IPython a failure of the job should point to the user's line, not to this module.
        self._attach(waits=False, to_result=True)
        try:
            with interruptible(self.job_name):
                return self._view.outcome.get(timeout=timeout)
        except AskTimeoutError as late:
            state = f"is still {self._view.status}" if self._behaviour is EVERYTHING else "has not ended"
            hint = "its why() shows what it is waiting for"
            raise TimeoutError(f"{self._label} {state} after {timeout} seconds; {hint}") from late
        finally:
            if self._view.outcome.done():
                self._await_archive()
                self._wait_for_listeners()

    def cancel(self, timeout: float = 10.0) -> None:
        """Request the cancellation of the job. Returns when the request is accepted; use `wait` to wait for the end.

        Raises:
            JobCancellationError: the job has ended already.
            TimeoutError: no reply arrives within `timeout` seconds.
        """
        if self.done():
            raise JobCancellationError(f"{self._label} was not cancelled: it is {self.status} already")
        late = f"the cancellation of job {self.job_name!r} was not answered within {timeout} s"
        with self._requested(late, JobCancellationError, self._label):
            self._job_manager.cancel(self.job_id, timeout)

    def stop(self, timeout: float = STOPPING_TIMEOUT) -> str:
        """Take a last checkpoint, publish its output, and finish the job. Returns the path of the checkpoint.

        This is like `stop_with_savepoint`, but with a checkpoint, which is faster but must not be moved. The checkpoint
        contains open windows, and is retained for a job that continues from it. Returns when the job has FINISHED. If
        stopping fails, the job keeps running.

        Raises:
            JobStoppingError: the job was not stopped: it is not running, it failed meanwhile, or its checkpoint failed.
            TimeoutError: the job has not stopped within `timeout` seconds, but may still do so.
        """
        return self._stop(timeout, savepoint_directory=None, drain=False)

    def stop_with_savepoint(
        self, directory: str | PathLike[str] | None = None, drain: bool = False, timeout: float = STOPPING_TIMEOUT
    ) -> str:
        """Take a savepoint, publish its output, and finish the job. Returns the path of the savepoint.

        The savepoint is a self-contained folder in `directory` (by default the default savepoint directory). It may be
        moved, and no job deletes it; `from_savepoint` starts a job from it. The savepoint contains open windows. With
        `drain`, which is meant for a job that will not be continued, the windows fire first, as at the end of the
        input. Returns when the job has FINISHED. If stopping fails, the job keeps running. From a coroutine: `await
        asyncio.to_thread(...)`.

        Raises:
            SavepointError: no savepoint directory is configured.
            JobStoppingError: the job was not stopped: it is not running, is being stopped already, or failed meanwhile,
                or the savepoint failed.
            TimeoutError: the job has not stopped within `timeout` seconds, but may still do so.
        """
        return self._stop(timeout, savepoint_directory=self._savepoint_directory(directory), drain=drain)

    def trigger_savepoint(self, directory: str | PathLike[str] | None = None, timeout: float = SNAPSHOT_TIMEOUT) -> str:
        """Take a savepoint while the job keeps running. Returns its path when it is complete.

        The savepoint is a folder as for `stop_with_savepoint`. It publishes nothing: the pending output of sinks is
        published by the next checkpoint of the job, or else by a job that starts from the savepoint. From a coroutine:
        `await asyncio.to_thread(...)`.

        Raises:
            SavepointError: no savepoint directory is configured, the job is not running, or the savepoint failed.
            TimeoutError: the savepoint is not complete within `timeout` seconds, but may still complete.
        """
        target = self._savepoint_directory(directory)
        if self.done():
            raise SavepointError(f"no savepoint of {self._label}: it is {self.status} already")
        late = f"no savepoint of {self._label} is complete after {timeout} s"
        with self._requested(late, SavepointError, f"no savepoint of {self._label}"):
            return self._job_manager.trigger_savepoint(self.job_id, target, timeout)

    def trigger_checkpoint(
        self,
        checkpoint_type: CheckpointType | str = CheckpointType.CONFIGURED,
        timeout: float = SNAPSHOT_TIMEOUT,
    ) -> str:
        """Take a checkpoint now and publish its output. Returns its path when it is complete.

        A `full` checkpoint writes all state again and depends on no earlier files. `incremental` and `configured` ones
        write only new state, as periodic ones do. The checkpoint waits if the maximum number of concurrent checkpoints
        is reached, but not for the minimum pause between checkpoints. The job deletes it like any other checkpoint.
        From a coroutine: `await asyncio.to_thread(...)`.

        Raises:
            CheckpointError: the job is not running, the checkpoint failed, or there is no such type.
            TimeoutError: the checkpoint is not complete within `timeout` seconds, but may still complete.
        """
        try:
            chosen = CheckpointType(checkpoint_type.upper())
        except ValueError:
            types = ", ".join(each.lower() for each in CheckpointType)
            raise CheckpointError(f"unknown checkpoint type {checkpoint_type!r}: use one of {types}") from None
        if self.done():
            raise CheckpointError(f"no checkpoint of {self._label}: it is {self.status} already")
        late = f"no checkpoint of {self._label} is complete after {timeout} s"
        with self._requested(late, CheckpointError, f"no checkpoint of {self._label}"):
            return self._job_manager.trigger_checkpoint(self.job_id, chosen, timeout).checkpoint_path

    def update_resource_requirements(
        self, requirements: Mapping[str, Bounds] | Bounds, timeout: float = RESCALE_TIMEOUT
    ) -> None:
        """Set new bounds of parallelism. The job runs with as many subtasks as there are slots for.

        `requirements` maps vertices, given by id, name or the uid of one of their operators, to bounds. Other vertices
        keep their bounds. A number or a pair alone applies to all vertices, reduced for vertices with an operator that
        supports only fewer subtasks. With high availability the bounds survive a failure of the driver. The job takes a
        checkpoint, all its tasks restart from it, and no row is lost or counted twice. Returns when the job has
        accepted the bounds. `rescales` shows the result.

        Raises:
            RescaleError: the job cannot be rescaled because it is a batch job, takes no checkpoints or has ended; or
                the bounds are invalid, or exceed the key groups of a vertex or the limit of an operator.
            TimeoutError: no reply arrives within `timeout` seconds.
        """
        bounds = bounds_of(self.job_graph, requirements)
        with self._rescaling(timeout):
            self._job_manager.update_requirements(self.job_id, bounds, timeout)

    def resource_requirements(self, timeout: float = RESCALE_TIMEOUT) -> dict[str, tuple[int, int]]:
        """Return the minimum and maximum parallelism of each vertex, by id.

        Raises:
            RescaleError: the job has ended.
            TimeoutError: no reply arrives within `timeout` seconds.
        """
        with self._rescaling(timeout):
            bounds = self._job_manager.requirements(self.job_id, timeout)
        return {each.vertex_id: (each.lower_bound, each.upper_bound) for each in bounds.vertices}

    @property
    def rescales(self) -> tuple[Rescale, ...]:
        """The last rescales of the job, oldest first, with their causes, decisions and results.

        Raises:
            ClusterError: the cluster was shut down, or no longer knows the job.
            TimeoutError: the JobManager does not reply within 10 seconds.
        """
        with self._information_errors():
            return self._job_manager.rescales(self.job_id).rescales

    def query_state(self, uid: str, name: str, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of an operator's state `name` by key. Keys without a value are missing.

        A Spark job reads the values from the files of the last completed checkpoint. Tasks are not queried, and newer
        values are not visible. Keys are values, or tuples if the stream is keyed by several columns. Names are those of
        `flykka.state.read(...)`: the states of a function, or aggregates such as `sum(amount)`.

        Raises:
            SavedStateError: the job has completed no checkpoint yet, or checkpoints are deleted before they can be
                read; or there is no such operator or state, or its keys have another type.
        """
        requested = list(keys)
        path = self._last_completed()
        for _ in range(_ATTEMPTS):
            try:
                return _query(path, uid, name, requested)
            except SavedStateError:
                raise
            except Exception:  # Reading may raise any error if files are deleted.
                newer = self._last_completed()
                if newer == path:
                    raise
                path = newer
        raise SavedStateError(
            f"the checkpoints of job {self.job_name!r} were deleted before they could be read: retain more of them"
            " with enable_checkpointing(..., retained=10)"
        )

    def add_listener(self, callback: Callable[[Message], object]) -> None:
        """Call `callback` with every message about the job, in order, on its own thread.

        A late listener first receives the last thousand earlier messages.

        Raises:
            ClusterError: the cluster was shut down.
        """
        self._attach(waits=False)
        heard_all: Future[None] = Future(self._system.driver)
        props = Props(JobListenerActor, self._actor, callback, heard_all).with_dispatcher("pinned")
        try:
            self._system.spawn(props, f"job-listener-{self.job_id}-{next(_NUMBERS)}")
        except SpawnRefusedError as ending:
            raise ClusterError(f"no more information about {self._label}: its cluster was shut down") from ending
        self._listeners.append(heard_all)

    def _ipython_display_(self) -> None:
        """Display the job in IPython. In a notebook the display is live until the job ends."""
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
            # `wait` waits for the last display, so that the end of the job is displayed before the next cell begins.
            self._listeners.append(self._live.shown_last)
        self._live.show()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        from flykka.views.live_display import job_bundle

        return job_bundle(self.details)

    def _attach(self, *, waits: bool = True, to_result: bool = False) -> None:
        """Register for the events of the job, unless the client already receives the required events."""
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
                await asyncio.to_thread(self._await_archive)
                await self._listeners_finished()

    async def _listeners_finished(self) -> None:
        # This is `_wait_for_listeners` without blocking the event loop.
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
                # A listener that does not return delays its own messages, not the job's result.
                return

    def _stop(self, timeout: float, *, savepoint_directory: str | None, drain: bool) -> str:
        if self.done():
            raise JobStoppingError(f"{self._label} was not stopped: it is {self.status} already")
        self._attach(waits=False, to_result=True)
        late = f"{self._label} has not stopped after {timeout} s"
        with self._requested(late, JobStoppingError, f"{self._label} was not stopped"):
            path = self._job_manager.stop(self.job_id, savepoint_directory, timeout, drain=drain)
        # The state of the job should be FINISHED when this method returns. The job has stopped with this checkpoint
        # even if its result is lost together with the JobManager or the store.
        with suppress(JobExecutionError):
            self._get(self._view.outcome, timeout, f"has stopped with {path}, but has not reported its end")
        self._await_archive()
        return path

    def _get(self, future: Future[T], timeout: float | None, state: str) -> T:
        __tracebackhide__ = True
        try:
            return future.get(timeout=timeout)
        except AskTimeoutError as late:
            raise TimeoutError(f"{self._label} {state} after {timeout} seconds") from late

    def _savepoint_directory(self, directory: str | PathLike[str] | None) -> str:
        chosen = directory or self._graph.checkpointing.savepoint_directory
        if chosen is None:
            raise SavepointError(
                "No savepoint directory configured. You can either specify a directory while triggering this savepoint"
                " or configure a default with set_default_savepoint_directory(...), in `flykka run` --savepoint-dir"
            )
        return absolute_directory(chosen)

    def _await_archive(self) -> None:
        """Wait some seconds until the ended job is archived, if archives are enabled."""
        if self._graph.checkpointing.archive_directory is not None:
            # If the cluster has terminated, it has waited for the archive itself.
            with suppress(ActorDeadError, AskFailedError, AskTimeoutError):
                self._job_manager.ask(lambda me: AwaitArchives(reply_to=me))

    def _ask_for_details(self, checkpoints: int) -> JobDetails | None:
        """Request the details of the job. Returns None if the JobManager does not reply or does not know the job."""
        job_id = self.job_id
        try:
            answer = self._job_manager.ref.ask(
                lambda me: RequestJobDetails(job_id=job_id, reply_to=me, checkpoints=checkpoints),
                timeout=DETAILS_TIMEOUT,
            )
        except (ActorDeadError, AskFailedError, AskTimeoutError):
            return None
        return answer if isinstance(answer, JobDetails) else None

    @contextmanager
    def _information_errors(self) -> Iterator[None]:
        try:
            yield
        except AskTimeoutError as late:
            raise TimeoutError(f"no information about {self._label} after {LOOK_TIMEOUT} s") from late
        except ActorDeadError as ended:
            raise ClusterError(f"no more information about {self._label}: its cluster was shut down") from ended
        except NotKnownError:
            raise ClusterError(f"no information about {self._label}: its cluster no longer knows it") from None

    @contextmanager
    def _requested(self, late: str, error: type[FlykkaError], what: str) -> Iterator[None]:
        """Raise `error` if the request is refused, and `TimeoutError` with the text `late` after a timeout."""
        try:
            yield
        except AskTimeoutError as silent:
            raise TimeoutError(late) from silent
        except RequestRefusedError as refused:
            raise error(f"{what}: {refused}") from None

    def _rescaling(self, timeout: float) -> AbstractContextManager[None]:
        late = f"no reply about the resource requirements of {self._label} in {timeout} s"
        return self._requested(late, RescaleError, f"{self._label} is not rescaled")

    def _last_completed(self) -> str:
        completed = (
            each.path
            for each in reversed(self.details.checkpoints)
            if each.status is CheckpointStatsStatus.COMPLETED and not each.is_savepoint and each.path is not None
        )
        path = next(completed, None)
        if path is None:
            raise SavedStateError(
                f"job {self.job_name!r} has completed no checkpoint yet, so its state cannot be queried"
            )
        return path


def _query(path: str, uid: str, name: str, keys: list[Any]) -> dict[Any, Any]:
    state = read_state(path, uid)
    if len(state.key_names) > 1:
        return dict(state.lookup(name, keys))
    values = state.lookup(name, [(key,) for key in keys])
    return {key: value for (key,), value in values.items()}


def new_job_id() -> JobId:
    return JobId(uuid4().hex)
