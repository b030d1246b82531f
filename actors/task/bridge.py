"""The bridge: the actor between a Task and the engine that moves the rows of its execution attempt.

It hands every message to its machine, `Attempt`, and does what that decides. It blocks in no turn: work goes to the
threads of the engine, and comes back as a message. So the trace of a bridge holds all that its engine has answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, assert_never, cast, get_args

from flykka.actors.data_plane import Engine
from flykka.actors.machines.bridge.attempt import Attempt, AttemptEvent
from flykka.actors.machines.bridge.effects import (
    AdvanceTo,
    AttemptEffect,
    Begin,
    CancelWork,
    CloseChain,
    Commit,
    DiscardSnapshot,
    FireTimers,
    HandleEvents,
    HoldBatches,
    InterruptWork,
    NoteState,
    Open,
    PrepareCommit,
    Process,
    Read,
    Release,
    ReleaseHeldBy,
    Survivable,
    TellTask,
    UpdateState,
    Work,
    WriteInFlight,
    WriteSnapshot,
    lane_of,
)
from flykka.actors.machines.bridge.stage_watchdog import StageWatchdog
from flykka.actors.machines.ignore import Ignore
from flykka.messages.monitoring.explanation import ExplainStages, StagesExplained
from flykka.messages.tasks.bridge import EngineFailed, ProgressDue, ProgressSeen, WorkDone
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.message import Message, Value
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor


class Engines(Protocol):
    """As much of a data plane as a bridge needs."""

    def engine(self, descriptor: TaskDeploymentDescriptor, report: Callable[[EngineFailed], object]) -> Engine:
        """The engine of an attempt. `report` is told, on any thread, of what no answer tells."""


@dataclass(frozen=True, slots=True)
class OwnedEngine:
    """The engine of a bridge, under one name in every trace, whatever its class."""

    engine: Engine

    def close(self) -> None:
        """The bridge has ended."""
        self.engine.close()


_EVENTS = frozenset(get_args(AttemptEvent))


class Bridge(Actor):
    """The bridge of one execution attempt, the only child of its Task."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, engines: Engines) -> None:
        self._descriptor = descriptor
        self._engines = engines

    def pre_start(self) -> None:
        """Begin the attempt. Whatever becomes of this actor, the kernel closes the engine."""
        self._attempt = Attempt(self._descriptor)
        self._engine = self._engines.engine(self._descriptor, self.context.ref.tell)
        self.context.own(OwnedEngine(self._engine))
        self._is_looking = False
        self._watchdog = StageWatchdog(self._descriptor.stage_timeout_ms)
        interval_ms = self._watchdog.look_interval_ms
        if interval_ms is not None:
            self.context.timers.start_fixed_delay("progress", interval_ms, ProgressDue())

    def handle_message(self, message: Message) -> None:
        """Commands from the Task, answers of the engine, and questions how far it is."""
        match message:
            case _ if type(message) in _EVENTS:
                self._decide(cast(AttemptEvent, message))
            case ProgressDue():
                # Where Spark takes its time to answer, questions must not queue up before it.
                if not self._is_looking:
                    self._is_looking = True
                    self._look(None)
            case ExplainStages(reply_to=reply_to):
                self._look(reply_to)
            case ProgressSeen():
                self._on_progress(message)
            case _:
                self.context.unhandled(message)

    def unanswered(self) -> dict[str, Callable[[], Value | None]]:
        """The calls that the engine has not answered, by key: for a fork, where nothing is left of its threads."""
        return {key: engine_call(self._engine, work) for key, work in self._attempt.unanswered.items()}

    def _decide(self, event: AttemptEvent) -> None:
        for effect in self._attempt.handle(event, self.context.now()):
            self._perform(effect)

    def _perform(self, effect: AttemptEffect) -> None:
        match effect:
            case Begin():
                self._begin(effect)
            case TellTask(message=message):
                self.context.parent.tell(message)
            case Release(batch_ids=batch_ids, holder=holder):
                self._engine.release(batch_ids, holder)
            case ReleaseHeldBy(holder=holder):
                self._engine.release_held_by(holder)
            case CancelWork():
                self._engine.cancel()
            case InterruptWork():
                self._engine.interrupt()
            case Ignore():
                pass
            case _:
                assert_never(effect)

    def _begin(self, begin: Begin) -> None:
        engine, key, what = self._engine, begin.key, begin.what
        ends_attempt = not isinstance(begin.work, Survivable)
        self.context.pipe_to_self(
            engine_call(engine, begin.work),
            on_success=lambda answer: WorkDone(work=key, answer=answer),
            on_failure=lambda raised: engine.failed(key, what, raised, ends_attempt=ends_attempt),
            executor=engine.lane(lane_of(begin.work), begin.number, what),
        )

    def _look(self, reply_to: Ref | None) -> None:
        self.context.pipe_to_self(
            self._engine.progress,
            on_success=lambda works: ProgressSeen(works=works, reply_to=reply_to),
            # Where Spark does not answer it is told what is at work without it.
            on_failure=lambda _: ProgressSeen(works=(), reply_to=reply_to),
        )

    def _on_progress(self, seen: ProgressSeen) -> None:
        now = self.context.now()
        known = {work.piece: work for work in (*self._attempt.at_work(now), *seen.works)}
        stages = self._watchdog.see(tuple(known.values()), now)
        if seen.reply_to is None:
            self._is_looking = False
        else:
            seen.reply_to.tell(StagesExplained(attempt=self._descriptor.attempt, stages=stages))
        stalled = self._watchdog.stalled(stages, now)
        if stalled is not None:
            self.context.timers.cancel("progress")
            self._decide(EngineFailed(cause=stalled))


def engine_call(engine: Engine, work: Work) -> Callable[[], Value | None]:
    """The call that does a piece of work."""
    match work:
        case Open(restore=restore, recover=recover):
            return partial(engine.open, restore, recover)
        case Read(command=reading):
            return partial(engine.read_splits, reading)
        case Process(command=processing):
            return partial(engine.process, processing)
        case UpdateState(stage=stage):
            return partial(engine.update_state, stage)
        case AdvanceTo(stage=stage, watermark_ms=watermark_ms, processing_time_ms=now_ms):
            return partial(engine.advance_watermark, stage, watermark_ms, now_ms)
        case FireTimers(stage=stage, processing_time_ms=now_ms, watermark_ms=watermark_ms):
            return partial(engine.advance_processing_time, stage, now_ms, watermark_ms)
        case HandleEvents(command=handling):
            return partial(engine.handle_operator_events, handling)
        case NoteState():
            return partial(engine.note_state, work.stage, work.checkpoint_id, work.watermark_ms, work.everything)
        case PrepareCommit(checkpoint_id=checkpoint_id, staged=staged):
            return partial(engine.prepare_commit, checkpoint_id, staged)
        case WriteSnapshot(checkpoint_id=checkpoint_id, savepoint=savepoint, sinks=sinks):
            return partial(engine.write_snapshot, checkpoint_id, savepoint, sinks)
        case DiscardSnapshot(checkpoint_id=checkpoint_id):
            return partial(engine.discard_snapshot, checkpoint_id)
        case HoldBatches(batch_ids=batch_ids, holder=holder):
            return partial(engine.hold, batch_ids, holder)
        case WriteInFlight(parts=parts):
            return partial(engine.write_in_flight, parts)
        case Commit(checkpoint_id=checkpoint_id):
            return partial(engine.commit, checkpoint_id)
        case CloseChain(cancel=cancel):
            return partial(engine.close_chain, cancel)
        case _:
            assert_never(work)
