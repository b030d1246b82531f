"""The bridge of a simulated attempt: it takes the time that Spark would, and answers as Spark's bridge does.

Two lanes, as there are: stages, which overlap and are answered in their order, and work in the background (snapshots,
channel state, commits), one piece after the other. How long each takes is drawn by the actor.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import assert_never

from flykka.messages.explanation import ExplainStages, StageProgress, StagesExplained
from flykka.messages.failure import SerializedThrowable
from flykka.messages.message import Message
from flykka.messages.simulation import StageOver, WorkOver
from flykka.messages.stage import (
    AbortCheckpoint,
    AdvanceWatermark,
    BridgeClosed,
    ChannelStateWritten,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    HoldInFlight,
    OpenBridge,
    ReadSplits,
    ReleaseBatches,
    RunStage,
    SnapshotFailed,
    SnapshotState,
    StageFailed,
    WriteChannelState,
)
from flykka.messages.task import TaskDeploymentDescriptor
from flykka.runtime.actor import Actor
from flykka.simulation.attempt import Barrier, SimulatedAttempt, StageCommand
from flykka.simulation.batches import BatchReleasedError
from flykka.simulation.rows import Rows
from flykka.simulation.world import World

_PACES = (0, 1, 1, 4)
"""How slow an attempt is beside others: before slow ones, batches wait in line."""


@dataclass(frozen=True, slots=True)
class _Stage:
    command: StageCommand | OpenBridge
    rows: Rows
    begun_ms: int
    due_ms: int


_Work = Barrier | WriteChannelState | CommitCheckpoint


@dataclass(frozen=True, slots=True)
class _Background:
    work: _Work
    begun_ms: int


class SimulatedBridge(Actor):
    """One per execution attempt, the only child of its Task."""

    def __init__(self, descriptor: TaskDeploymentDescriptor, world: World) -> None:
        self._descriptor = descriptor
        self._world = world
        self._stages: deque[_Stage] = deque()
        self._work: deque[_Background] = deque()
        self._has_failed = False
        self._closes = False

    def pre_start(self) -> None:
        """Begin the attempt. Whatever becomes of this actor, the kernel closes it."""
        self._attempt = SimulatedAttempt(self._descriptor, self._world)
        self._pace = self.context.random.choice(_PACES)
        self.context.own(_Closing(self._attempt))

    def handle_message(self, message: Message) -> None:
        """Commands from the Task, and the timers of both lanes."""
        match message:
            case ReadSplits() | RunStage() | AdvanceWatermark() | SnapshotState() | OpenBridge():
                self._begin_stage(message)
            case WriteChannelState() | CommitCheckpoint():
                self._begin_work(message)
            case StageOver():
                self._on_stage_over()
            case WorkOver():
                self._on_work_over()
            case HoldInFlight(checkpoint_id=checkpoint_id, batch_ids=batch_ids):
                if not self._attempt.channels.hold(checkpoint_id, batch_ids):
                    # Its reader was faster than this command; the next checkpoint does without it.
                    self._snapshot_failed(checkpoint_id, BatchReleasedError("a batch in flight was released"))
            case AbortCheckpoint(checkpoint_id=checkpoint_id):
                self._attempt.abort(checkpoint_id)
            case ReleaseBatches(batch_ids=batch_ids):
                self._world.batches.release(batch_ids)
            case CloseBridge(cancel=cancel):
                self._close(cancel=cancel)
            case ExplainStages(reply_to=reply_to):
                reply_to.tell(StagesExplained(attempt=self._descriptor.attempt, stages=self._explain()))
            case _:
                self.context.unhandled(message)

    @property
    def _is_deaf(self) -> bool:
        """Nothing new is begun."""
        return self._has_failed or self._closes or self._attempt.is_over

    def _explain(self) -> tuple[StageProgress, ...]:
        """What is at work, the oldest first."""
        stages = [(stage.begun_ms, self._stage_text(stage.command)) for stage in self._stages]
        background = [(each.begun_ms, _work_text(each.work)) for each in self._work]
        return tuple(StageProgress(what=what, since_ms=begun_ms) for begun_ms, what in sorted(stages + background))

    def _stage_text(self, command: StageCommand | OpenBridge) -> str:
        if isinstance(command, OpenBridge):
            return "opening"
        return f"stage {command.stage} of {self._descriptor.vertex.name!r}"

    # Stages

    def _begin_stage(self, command: StageCommand | OpenBridge) -> None:
        if self._is_deaf:
            return
        rows: Rows = ()
        if not isinstance(command, OpenBridge):
            try:
                rows = self._attempt.begin(command)
            except BatchReleasedError as gone:
                self._fail(gone)
                return
        takes_ms = self._takes_ms() + self._world.trouble.delay_ms(self._descriptor.vertex.vertex_id)
        last_ms = self._stages[-1].due_ms if self._stages else 0
        now = self.context.now()
        self._stages.append(_Stage(command, rows, now, max(last_ms, now + takes_ms)))
        if len(self._stages) == 1:
            self._wait_for_stage()

    def _wait_for_stage(self) -> None:
        delay_ms = max(0, self._stages[0].due_ms - self.context.now())
        self.context.timers.start_once("stage", delay_ms, StageOver())

    def _on_stage_over(self) -> None:
        if self._attempt.is_over:
            return
        stage = self._stages.popleft()
        try:
            self._finish(stage)
        except (OSError, BatchReleasedError) as failure:
            self._fail(failure)
            return
        if self._stages:
            self._wait_for_stage()
        self._close_if_idle()

    def _finish(self, stage: _Stage) -> None:
        command = stage.command
        if self._world.trouble.stage_fails(self._descriptor.vertex.vertex_id):
            raise OSError("the stage failed, as the simulation wanted it")
        if isinstance(command, OpenBridge):
            self.context.parent.tell(self._attempt.open(command))
            return
        finished, barrier = self._attempt.finish(command, stage.rows)
        self.context.parent.tell(finished)
        if barrier is not None:
            self._begin_work(barrier)

    def _fail(self, failure: Exception) -> None:
        """Nothing of the attempt is answered any more but its end."""
        self._has_failed = True
        self._stages.clear()
        self._work.clear()
        self.context.timers.cancel("stage")
        self.context.timers.cancel("work")
        self.context.parent.tell(StageFailed(cause=_thrown(failure)))
        self._close_if_idle()

    # In the background

    def _begin_work(self, work: _Work) -> None:
        if self._is_deaf:
            return
        self._work.append(_Background(work, self.context.now()))
        if len(self._work) == 1:
            self._wait_for_work()

    def _wait_for_work(self) -> None:
        self.context.timers.start_once("work", self._takes_ms(), WorkOver())

    def _on_work_over(self) -> None:
        if self._attempt.is_over:
            return
        work = self._work.popleft().work
        match work:
            case Barrier():
                self._write_snapshot(work)
            case WriteChannelState():
                self._write_channel_state(work)
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                try:
                    files = self._attempt.commit(checkpoint_id)
                except OSError as failure:
                    self._fail(failure)
                    return
                sink_rows = self._attempt.sink_rows.news()
                self.context.parent.tell(
                    CheckpointCommitted(checkpoint_id=checkpoint_id, files=files, sink_rows=sink_rows)
                )
            case _:
                assert_never(work)
        if self._work:
            self._wait_for_work()
        self._close_if_idle()

    def _write_snapshot(self, barrier: Barrier) -> None:
        try:
            written = self._attempt.write_snapshot(barrier)
        except OSError as failure:
            self._snapshot_failed(barrier.command.checkpoint_id, failure)
            return
        if written is not None:
            self.context.parent.tell(written)

    def _write_channel_state(self, command: WriteChannelState) -> None:
        checkpoint_id = command.checkpoint_id
        try:
            state = self._attempt.channels.write(command)
        except (OSError, BatchReleasedError) as failure:
            self._snapshot_failed(checkpoint_id, failure)
            return
        finally:
            self._attempt.channels.let_go(checkpoint_id)
        size_bytes = sum(handle.size_bytes for handle in state.exclusive)
        self.context.parent.tell(ChannelStateWritten(checkpoint_id=checkpoint_id, state=state, size_bytes=size_bytes))

    def _snapshot_failed(self, checkpoint_id: int, failure: Exception) -> None:
        self.context.parent.tell(SnapshotFailed(checkpoint_id=checkpoint_id, cause=_thrown(failure)))

    # The end

    def _close(self, *, cancel: bool) -> None:
        self._closes = True
        if cancel:
            self._stages.clear()
            self._work.clear()
            self.context.timers.cancel("stage")
            self.context.timers.cancel("work")
            self._attempt.end(is_cancelled=True)
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._closes and not self._stages and not self._work:
            self._attempt.end(is_cancelled=self._has_failed)
            self.context.parent.tell(BridgeClosed())

    def _takes_ms(self) -> int:
        return self._pace * self.context.random.choice(self._world.stage_ms)


@dataclass(frozen=True, slots=True)
class _Closing:
    attempt: SimulatedAttempt

    def close(self) -> None:
        """The actor has ended, in whatever way."""
        self.attempt.end(is_cancelled=True)


def _work_text(work: _Work) -> str:
    match work:
        case Barrier(command=command):
            return f"writing the snapshot of checkpoint {command.checkpoint_id}"
        case WriteChannelState(checkpoint_id=checkpoint_id):
            return f"writing what was in flight of checkpoint {checkpoint_id}"
        case CommitCheckpoint(checkpoint_id=checkpoint_id):
            return f"committing checkpoint {checkpoint_id}"
        case _:
            assert_never(work)


def _thrown(failure: Exception) -> SerializedThrowable:
    return SerializedThrowable(type_name=type(failure).__name__, message=str(failure))
