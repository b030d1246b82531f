"""A handle on a submitted job, for threads and for asyncio (Flink's JobClient)."""

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
from flykka.client.saved_state import read_state
from flykka.diagnosis.collection import TIME_LIMIT, collect_reports
from flykka.diagnosis.exception_history import JobExceptionHistory
from flykka.diagnosis.job_diagnosis import JobDiagnosis, diagnose
from flykka.errors import (
    CheckpointError,
    ClusterError,
    FlykkaError,
    JobCancellationError,
    JobStoppingError,
    RescaleError,
    SavepointError,
)
from flykka.ipython import interruptible, waking_loop
from flykka.messages.checkpointing.statistics import CheckpointStatsStatus
from flykka.messages.control.job import CheckpointType, JobStatus, ListeningBehaviour, RegisterJobClient
from flykka.messages.control.rescaling import JobResourceRequirements, JobVertexResourceRequirements, Rescale
from flykka.messages.graph.job_graph import JobGraph, JobVertex
from flykka.messages.monitoring.job_details import CHECKPOINT_HISTORY, AwaitArchives, JobDetails, RequestJobDetails
from flykka.messages.wire.ids import JobId
from flykka.messages.wire.message import Message
from flykka.metrics.collection import Scope, collected_of_job
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
"""Seconds that `stop` waits: the last checkpoint has to be taken, and what it holds to be published."""

DETAILS_TIMEOUT = 5.0
"""Seconds that `details` waits for the JobManager, until it says what was known last."""

LIVE_CHECKPOINTS = 100
"""The number of checkpoints in a picture that is drawn again and again."""

ATTACH_TIMEOUT = 10.0
"""Seconds that a detached client waits for the details of its job."""

LISTENERS_TIMEOUT = 5.0
"""Seconds that `wait` gives the listeners to hear the end of the job, once it has ended."""

SNAPSHOT_TIMEOUT = 600.0
"""Seconds that a client waits, as long as a checkpoint may take unless that was set."""

RESCALE_TIMEOUT = 10.0
"""Seconds that a client waits for the word that the job has new requirements."""

Bounds = int | tuple[int, int]
"""The greatest number of subtasks, with 1 as the least; or the least and the greatest."""

_ATTEMPTS = 5
"""A checkpoint may be subsumed, and its files deleted, while it is read: so many are tried."""

_HERE = "localhost"
"""The host of what is measured: all actors are in this process."""

_NUMBERS = count(1)
"""Of the clients that come back to a job."""


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
        attached: Attached = True,
        submits: bool = True,
    ) -> None:
        """Submit the job, or come back to one, and hear of it. Raises `ClusterError` where there is no cluster."""
        self._behaviour = listening_behaviour(attached)
        if self._behaviour is ListeningBehaviour.DETACHED:
            job_graph = replace(job_graph, client_heartbeat=None)  # Its job is to outlive it.
        self._system = system
        self._job_manager = JobManagerGateway(system, job_manager)
        self._graph = job_graph
        self._named = f"job {job_graph.name!r} ({job_graph.job_id})"
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
        return self._view.note(self._ask_for_details(CHECKPOINT_HISTORY))

    def details_with(self, checkpoints: int) -> JobDetails:
        """As `details`, with so many of the last checkpoints: for a display that asks again and again."""
        if self._view.is_final:
            return self._view.details
        return self._ask_for_details(checkpoints) or self._view.details

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
        with self._looked_at():
            measured = collected_of_job(self._job_manager, self.job_id, Scope.SUBTASK, _HERE, now_ms)
            return metric_frame(measured, now_ms)

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
        return self._job_manager.running_graph(self.job_id) is None

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
                self._await_archive()
                self._wait_for_listeners()

    def cancel(self, timeout: float = 10.0) -> None:
        """Have the job cancelled; returns when the JobManager has taken that on, and `wait` when it is done.

        Raises:
            JobCancellationError: the job has ended already.
            TimeoutError: there is no answer within `timeout` seconds.
        """
        if self.done():
            raise JobCancellationError(f"{self._named} was not cancelled: it is {self.status} already")
        late = f"no answer to the cancellation of job {self.job_name!r} in {timeout} s"
        with self._requested(late, JobCancellationError, self._named):
            self._job_manager.cancel(self.job_id, timeout)

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
        return self._stop(timeout, savepoint_directory=self._savepoint_directory(directory), drain=drain)

    def trigger_savepoint(self, directory: str | PathLike[str] | None = None, timeout: float = SNAPSHOT_TIMEOUT) -> str:
        """Have the job take a savepoint and go on; the path of the savepoint, which is complete when this returns.

        It is a folder as `stop_with_savepoint` makes one. It publishes nothing: what it holds for the sinks is
        published by the next checkpoint of the job, or where there is none by a job that starts from it. From
        a coroutine: `await asyncio.to_thread(...)`.

        Raises:
            SavepointError: no savepoint directory is configured, the job is not running, or the savepoint failed.
            TimeoutError: it is not complete within `timeout` seconds, and may still become so.
        """
        target = self._savepoint_directory(directory)
        if self.done():
            raise SavepointError(f"no savepoint of {self._named}: it is {self.status} already")
        late = f"no savepoint of {self._named} is complete after {timeout} s"
        with self._requested(late, SavepointError, f"no savepoint of {self._named}"):
            return self._job_manager.trigger_savepoint(self.job_id, target, timeout)

    def trigger_checkpoint(
        self,
        checkpoint_type: CheckpointType | str = CheckpointType.CONFIGURED,
        timeout: float = SNAPSHOT_TIMEOUT,
    ) -> str:
        """Have the job take a checkpoint now, whatever its interval is, and publish what it holds; its path.

        A `full` one writes all state again and needs no file of an earlier one; `incremental` and `configured` ones
        write what is new, as all others do. It waits while as many are under way as there may be, but not for the
        pause between two. It is the job's own, and is deleted as they are. From a coroutine: `await
        asyncio.to_thread(...)`.

        Raises:
            CheckpointError: the job is not running, or the checkpoint failed; or there is no such type.
            TimeoutError: it is not complete within `timeout` seconds, and may still become so.
        """
        try:
            chosen = CheckpointType(checkpoint_type.upper())
        except ValueError:
            known = ", ".join(each.lower() for each in CheckpointType)
            raise CheckpointError(f"there is no type of checkpoints {checkpoint_type!r}: there are {known}") from None
        if self.done():
            raise CheckpointError(f"no checkpoint of {self._named}: it is {self.status} already")
        late = f"no checkpoint of {self._named} is complete after {timeout} s"
        with self._requested(late, CheckpointError, f"no checkpoint of {self._named}"):
            return self._job_manager.trigger_checkpoint(self.job_id, chosen, timeout).checkpoint_path

    def update_resource_requirements(
        self, requirements: Mapping[str, Bounds] | Bounds, timeout: float = RESCALE_TIMEOUT
    ) -> None:
        """Have the job run within other bounds of parallelism from now on, as many subtasks as there are slots for.

        `requirements` are by vertex: its id, its name, or the uid of an operator in it; others stay as they are. A
        number alone, or a pair, is for all vertices that can have it: those with an operator that runs in fewer
        subtasks have as many as that allows. The bounds outlive a failure of the driver with high availability. The job
        takes a checkpoint, all its tasks restart from it, and no row is lost or counts twice. This returns when the job
        has the bounds; `rescales` tells what comes of them.

        Raises:
            RescaleError: the job cannot run so: it is a batch job or takes no checkpoints, a vertex has fewer key
                groups or an operator that runs in fewer subtasks, or the bounds are none; or it has ended.
            TimeoutError: there is no answer within `timeout` seconds.
        """
        bounds = bounds_of(self.job_graph, requirements)
        with self._rescaling(timeout):
            self._job_manager.update_requirements(self.job_id, bounds, timeout)

    def resource_requirements(self, timeout: float = RESCALE_TIMEOUT) -> dict[str, tuple[int, int]]:
        """Return the least and the greatest parallelism of each vertex, by its id.

        Raises:
            RescaleError: the job has ended.
            TimeoutError: there is no answer within `timeout` seconds.
        """
        with self._rescaling(timeout):
            found = self._job_manager.requirements(self.job_id, timeout)
        return {each.vertex_id: (each.lower_bound, each.upper_bound) for each in found.vertices}

    @property
    def rescales(self) -> tuple[Rescale, ...]:
        """The last rescales of the job, the oldest first: what has caused them, what was decided, how they ended.

        Raises:
            ClusterError: its cluster was shut down, or has forgotten the job.
            TimeoutError: the JobManager does not answer within 10 seconds.
        """
        with self._looked_at():
            return self._job_manager.rescales(self.job_id).rescales

    def query_state(self, uid: str, name: str, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of the state `name` of an operator for some keys, by key; a key that has none is left out.

        The answer is that of the last completed checkpoint, whose files are read by a Spark job: no task is asked, and
        nothing newer is seen. Keys are values, or tuples of them where the stream is keyed by several columns. Names
        are those of `flykka.state.read(...)`: of a function its states', of aggregates such as `sum(amount)`.

        Raises:
            SavedStateError: the job has completed no checkpoint yet, or none is there long enough to be read; it has no
                such operator or state, or keys of another type.
        """
        asked = list(keys)
        path = self._last_completed()
        for _ in range(_ATTEMPTS):
            try:
                return _answered(path, uid, name, asked)
            except SavedStateError:
                raise
            except Exception:  # whatever reading raises where files are deleted
                newer = self._last_completed()
                if newer == path:
                    raise
                path = newer
        raise SavedStateError(
            f"the checkpoints of job {self.job_name!r} are gone before they can be read: keep more of them with"
            " enable_checkpointing(..., retained=10)"
        )

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
                await asyncio.to_thread(self._await_archive)
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
        late = f"{self._named} has not stopped after {timeout} s"
        with self._requested(late, JobStoppingError, f"{self._named} was not stopped"):
            path = self._job_manager.stop(self.job_id, savepoint_directory, timeout, drain=drain)
        # A look at the job when this has returned is to show that it has finished.
        self._get(self._view.outcome, timeout, "has stopped, and has not said so")
        self._await_archive()
        return path

    def _get(self, future: Future[T], timeout: float | None, state: str, hint: str = "") -> T:
        __tracebackhide__ = True
        try:
            return future.get(timeout=timeout)
        except AskTimeoutError as late:
            raise TimeoutError(f"{self._named} {state} after {timeout} seconds{hint}") from late

    def _savepoint_directory(self, directory: str | PathLike[str] | None) -> str:
        chosen = directory or self._graph.checkpointing.savepoint_directory
        if chosen is None:
            raise SavepointError(
                "No savepoint directory configured. You can either specify a directory while triggering this savepoint"
                " or configure a default with set_default_savepoint_directory(...), in `flykka run` --savepoint-dir"
            )
        return absolute_directory(chosen)

    def _await_archive(self) -> None:
        """Wait until the job, which has ended, is archived where it is to be: for some seconds at most."""
        if self._graph.checkpointing.archive_directory is not None:
            # Where nobody answers any more, its cluster has waited for it.
            with suppress(ActorDeadError, AskFailedError, AskTimeoutError):
                self._job_manager.ask(lambda me: AwaitArchives(reply_to=me))

    def _ask_for_details(self, checkpoints: int) -> JobDetails | None:
        """The details of the job; None if the present JobManager does not answer or does not know it."""
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
    def _looked_at(self) -> Iterator[None]:
        try:
            yield
        except AskTimeoutError as late:
            raise TimeoutError(f"nothing is told of {self._named} after {LOOK_TIMEOUT} s") from late
        except ActorDeadError as ended:
            raise ClusterError(f"nothing more is told of {self._named}: its cluster was shut down") from ended
        except NotKnownError:
            raise ClusterError(f"nothing is told of {self._named}: its cluster does not know it any more") from None

    @contextmanager
    def _requested(self, late: str, error: type[FlykkaError], what: str) -> Iterator[None]:
        """Raise `error` for what is refused, and `TimeoutError` with the text `late`."""
        try:
            yield
        except AskTimeoutError as silent:
            raise TimeoutError(late) from silent
        except RequestRefusedError as refused:
            raise error(f"{what}: {refused}") from None

    def _rescaling(self, timeout: float) -> AbstractContextManager[None]:
        late = f"no answer about the requirements of {self._named} in {timeout} s"
        return self._requested(late, RescaleError, f"{self._named} is not rescaled")

    def _last_completed(self) -> str:
        completed = (
            each.path
            for each in reversed(self.details.checkpoints)
            if each.status is CheckpointStatsStatus.COMPLETED and not each.is_savepoint and each.path is not None
        )
        path = next(completed, None)
        if path is None:
            raise SavedStateError(
                f"job {self.job_name!r} has completed no checkpoint yet: there is no state to ask for"
            )
        return path


def bounds_of(job_graph: JobGraph, requirements: Mapping[str, Bounds] | Bounds) -> JobResourceRequirements:
    """The requirements in the form of messages. Raises `RescaleError` where there is no such vertex."""
    if not isinstance(requirements, Mapping):
        made = [_of_vertex(vertex, requirements, vertex.parallelism_limit) for vertex in job_graph.vertices]
    else:
        made = [_of_vertex(_vertex(job_graph, name), bounds) for name, bounds in requirements.items()]
    return JobResourceRequirements(vertices=tuple(made))


def _of_vertex(vertex: JobVertex, bounds: Bounds, limit: int | None = None) -> JobVertexResourceRequirements:
    lower, upper = (1, bounds) if isinstance(bounds, int) else bounds
    if limit is not None:
        lower, upper = min(lower, limit), min(upper, limit)
    return JobVertexResourceRequirements(vertex_id=vertex.vertex_id, lower_bound=lower, upper_bound=upper)


def _vertex(job_graph: JobGraph, name: str) -> JobVertex:
    for vertex in job_graph.vertices:
        if name in (vertex.vertex_id, vertex.name) or any(each.ref.uid == name for each in vertex.operators):
            return vertex
    known = ", ".join(f"{vertex.name!r} ({vertex.vertex_id})" for vertex in job_graph.vertices)
    raise RescaleError(f"job {job_graph.name!r} has no vertex {name!r}: there are {known}")


def _answered(path: str, uid: str, name: str, keys: list[Any]) -> dict[Any, Any]:
    state = read_state(path, uid)
    if len(state.key_names) > 1:
        return dict(state.lookup(name, keys))
    found = state.lookup(name, [(key,) for key in keys])
    return {key: value for (key,), value in found.items()}


def new_job_id() -> JobId:
    """The id of a job that is about to be made: the same program has another one each time."""
    return JobId(uuid4().hex)
