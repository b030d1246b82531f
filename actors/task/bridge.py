"""The bridge: the actor between a Task and the engine that processes the rows of its execution attempt.

The actor makes no decisions: for a command of the Task it runs the engine's method of the same name on the command's
lane, and sends the result to the Task. No turn blocks: results return as messages, so the actor's trace contains all
results of the engine. Faults kill the bridge, and a replay ends at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from flykka.actors.data_plane import Engine
from flykka.actors.machines.attempt.watchdog import StageWatchdog
from flykka.messages.attempt.answers import (
    ChainOpened,
    EngineFailed,
    ProgressDue,
    ProgressSeen,
    WorkAnswered,
    WorkDone,
    WorkProgress,
)
from flykka.messages.attempt.commands import CancelWork, Command, InterruptWork, ReleaseBatches
from flykka.messages.monitoring.explanation import ExplainStages, StagesExplained
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import trace_tag
from flykka.runtime.actor import Actor


class Engines(Protocol):
    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> Engine:
        """Create an attempt's engine. `report` may be called on any thread, with a failure outside of any command."""


@trace_tag("resource.engine")
@dataclass(frozen=True, slots=True)
class OwnedEngine:
    """The engine of a bridge. Traces show this class, whatever class the engine has."""

    engine: Engine

    def close(self) -> None:
        self.engine.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWork:
    command: Command
    what: str
    begun_ms: int


@trace_tag("actor.bridge")
class Bridge(Actor):
    def __init__(self, descriptor: TaskDeploymentDescriptor, engines: Engines) -> None:
        self._descriptor = descriptor
        self._engines = engines

    def pre_start(self) -> None:
        """Create the engine. The kernel closes it however this actor ends."""
        self._engine = self._engines.engine(self._descriptor, self.context.ref.tell)
        self.context.own(OwnedEngine(self._engine))
        self._running: dict[int, RunningWork] = {}
        self._begun = 0
        self._chain_name = self._descriptor.vertex.name
        self._is_observing = False
        self._watchdog = StageWatchdog(self._descriptor.stage_timeout_ms)
        interval_ms = self._watchdog.interval_ms
        if interval_ms is not None:
            self.context.timers.start_fixed_delay("progress", interval_ms, ProgressDue())

    def handle_message(self, message: Message) -> None:
        match message:
            case Command():
                self._begin(message)
            case WorkAnswered(piece=piece, answer=answer):
                self._running.pop(piece, None)
                if isinstance(answer, ChainOpened):
                    self._chain_name = answer.name or self._chain_name
                self.context.parent.tell(answer)
            case ReleaseBatches():
                self._engine.release_batches(message)
            case EngineFailed():
                self.context.parent.tell(message)
            case CancelWork():
                self._running.clear()
                self._engine.cancel_work()
            case InterruptWork():
                self._engine.interrupt_work()
            case ProgressDue():
                # Spark is not queried again before it has responded.
                if not self._is_observing:
                    self._is_observing = True
                    self._observe(None)
            case ExplainStages(reply_to=reply_to):
                self._observe(reply_to)
            case ProgressSeen():
                self._on_progress(message)
            case _:
                self.context.unhandled(message)

    def unanswered(self) -> dict[int, Callable[[], WorkAnswered]]:
        """Return the engine's pending calls by work id.

        A fork of a recorded run has no threads for these calls, so it makes them itself.
        """
        return {piece: partial(self._answer, piece, work.command) for piece, work in self._running.items()}

    def _begin(self, command: Command) -> None:
        self._begun += 1
        piece, engine, what = self._begun, self._engine, f"{command.description} {self._chain_name!r}"
        self._running[piece] = RunningWork(command=command, what=what, begun_ms=self.context.now())
        self.context.pipe_to_self(
            partial(getattr(engine, command.method), command),
            on_success=lambda answer: _answered(piece, command, answer),
            on_failure=lambda error: WorkAnswered(piece=piece, answer=engine.failed(command, what, error)),
            executor=engine.lane(command, piece, what),
        )

    def _answer(self, piece: int, command: Command) -> WorkAnswered:
        return _answered(piece, command, getattr(self._engine, command.method)(command))

    def _observe(self, reply_to: Ref | None) -> None:
        self.context.pipe_to_self(
            self._engine.progress,
            on_success=lambda works: ProgressSeen(works=works, reply_to=reply_to),
            # If Spark does not respond, the work is reported without its Spark tasks.
            on_failure=lambda _: ProgressSeen(works=(), reply_to=reply_to),
        )

    def _on_progress(self, report: ProgressSeen) -> None:
        now = self.context.now()
        works = {
            piece: WorkProgress(piece=piece, what=work.what, age_ms=now - work.begun_ms)
            for piece, work in self._running.items()
        }
        works |= {work.piece: work for work in report.works}
        stages = self._watchdog.observe(tuple(works.values()), now)
        if report.reply_to is None:
            self._is_observing = False
        else:
            report.reply_to.tell(StagesExplained(attempt=self._descriptor.attempt, stages=stages))
        stalled = self._watchdog.stalled(stages, now)
        if stalled is not None:
            self.context.timers.cancel("progress")
            self.context.parent.tell(EngineFailed(cause=stalled))


def _answered(piece: int, command: Command, answer: Message | None) -> WorkAnswered:
    return WorkAnswered(piece=piece, answer=WorkDone(command=command) if answer is None else answer)
