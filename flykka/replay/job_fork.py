"""Sessions and forks of recorded jobs: the kernel's classes with replacements for Spark and the storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.actors.job_master.actor import JobMaster
from flykka.actors.task.actor import Task
from flykka.actors.task.bridge import Bridge
from flykka.messages.attempt.answers import EngineFailed, WorkAnswered
from flykka.messages.control.job_control import SplitDiscoveryFailed
from flykka.messages.tasks.source import SplitsDiscovered
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.replay.data_planes import ENGINE_CALLS, unrecorded_work
from flykka.replay.outcomes import RunOutcome
from flykka.runtime.errors import ForkError
from flykka.runtime.path import USER, split_path
from flykka.runtime.replay.fork.fork import Fork, ForkRun
from flykka.runtime.replay.session.session import ReplaySession
from flykka.runtime.trace.file.order import exactly_in_order
from flykka.runtime.trace.text import unwrapped

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.durations import Duration
    from flykka.runtime.recording import Recorder
    from flykka.runtime.replay.engine import ReplayEngine
    from flykka.runtime.trace.records import Record

_INJECTED = SerializedThrowable(type_name="InjectedFailure", message="a stage fails in this fork")


class JobFork(Fork):
    """A fork of a recorded cluster. After the end of the recording its engines reply as the protocol requires, without
    rows.
    """

    def __init__(self, engine: ReplayEngine) -> None:
        trace = engine.trace
        super().__init__(engine, unrecorded=unrecorded_work, paced=ENGINE_CALLS)
        self.recorded = RunOutcome.from_records(exactly_in_order(trace))
        self.outcome = RunOutcome()
        self._answer_pending_requests()

    def fail_stage(self) -> None:
        """Let the engine of the current message's task report a failure before that message.

        Raises:
            ForkError: the message concerns no running task.
        """
        self.tell(f"{self._current_task()}/bridge", EngineFailed(cause=_INJECTED))

    def run(
        self,
        limit: Duration = "1h",
        *,
        until: Callable[[Record], bool] | None = None,
        at_rest: Callable[[], bool] | None = None,
        observer: Callable[[Record], object] | None = None,
        recorder: Recorder | None = None,
        max_turns: int = 1_000_000,
    ) -> ForkRun:
        for record in exactly_in_order(self._engine.trace):
            if record.sequence >= self._number:
                break
            self.outcome.observe(record)

        def observe(record: Record) -> None:
            self.outcome.observe(record)
            if observer is not None:
                observer(record)

        def is_over() -> bool:
            return (self.outcome.has_ended and not self.expects_more) or (at_rest is not None and at_rest())

        run = super().run(limit, until=until, at_rest=is_over, observer=observe, recorder=recorder, max_turns=max_turns)
        # Messages to clients contain other times than in the recording, so no reply is expected for them.
        silent = {
            path: messages for path, messages in run.silent.items() if not self.outcome.jobs or _is_below_others(path)
        }
        has_ended = self.outcome.has_ended and not self.expects_more
        return replace(run, silent=silent, ended="all jobs have ended" if has_ended else run.ended)

    def _answer_pending_requests(self) -> None:
        """Reply to requests to engines and sources that are pending when the recording ends."""
        answered: set[tuple[Ref, str | int]] = set()
        for turn in (turn for turn in self._engine.trace if turn.sequence >= self._number):
            match turn.message:
                case WorkAnswered(piece=piece):
                    answered.add((turn.recipient, piece))
                case SplitsDiscovered(operator_id=key) | SplitDiscoveryFailed(operator_id=key):
                    answered.add((turn.recipient, key))
        for cell in self.system.cells.living():
            if isinstance(cell.instance, Bridge):
                for piece, call in cell.instance.unanswered().items():
                    if (cell.ref, piece) not in answered:
                        self.tell(cell.ref.path, call())
            elif isinstance(cell.instance, JobMaster):
                for operator_id, discover in cell.instance.unanswered().items():
                    if (cell.ref, operator_id) not in answered:
                        self.tell(cell.ref.path, discover())

    def _current_task(self) -> str:
        """Return the path of the Task that handles the current message, or that runs the attempt named in it."""
        turn = self.turn
        if turn is not None:
            path = turn.recipient.path.removesuffix("/bridge")
            attempt = getattr(unwrapped(turn.message), "attempt", None)
            for cell in self.system.cells.living():
                if isinstance(cell.instance, Task) and (
                    cell.ref.path == path or _attempt_of(cell.props.arguments) == attempt
                ):
                    return cell.ref.path
        raise ForkError(
            f"no stage can fail {self._where()}: its message is not for a Task, and names no living attempt"
        )


class JobSession(ReplaySession):
    """A replay session that creates forks of jobs.

    Args:
        make_engine: creates an engine at the beginning of the trace.
        make_fork_engine: creates an engine whose actors can continue after the recording.
    """

    def __init__(self, make_engine: Callable[[], ReplayEngine], make_fork_engine: Callable[[], ReplayEngine]) -> None:
        super().__init__(make_engine)
        self._make_fork_engine = make_fork_engine

    def fork(self) -> JobFork:  # type: ignore[override]  # Jobs' unrecorded work is known.
        return JobFork(self._before_turn(self._make_fork_engine()))


def _attempt_of(arguments: tuple[object, ...]) -> object:
    return next((each.attempt for each in arguments if isinstance(each, TaskDeploymentDescriptor)), None)


def _is_below_others(path: str) -> bool:
    return split_path(path)[0] != USER
