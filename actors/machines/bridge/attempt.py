"""The life of one execution attempt on the data plane: commands of the Task become work of the engine, in order.

Decides the order of stages, what belongs to a checkpoint, when it is written, committed or given up, which batches are
held meanwhile, and how the attempt ends. How rows are moved, and where state lies, is the engine's: nothing in here
knows an operator. Every piece of work has a key, under which it is answered once; an answer that the attempt does
not wait for any more is ignored.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import assert_never

from flykka.actors.machines.bridge.batches import IN_TRANSIT, checkpoint_holder
from flykka.actors.machines.bridge.channel_state import (
    bridge_opened,
    channel_state,
    parts_to_write,
    to_recover,
    without_channel_state,
)
from flykka.actors.machines.bridge.effects import (
    AttemptEffect,
    Begin,
    CancelWork,
    CloseChain,
    Commit,
    HoldBatches,
    InterruptWork,
    Open,
    Release,
    ReleaseHeldBy,
    Survivable,
    TellTask,
    Work,
    WriteInFlight,
)
from flykka.actors.machines.bridge.snapshots import Snapshot, Snapshots, nothing_written
from flykka.actors.machines.bridge.stages import ChainTraits, Stage, StageCommand, StageQueue
from flykka.actors.machines.bridge.work_in_hand import Job, WorkInHand
from flykka.actors.machines.ignore import Ignore
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.graph.job_graph import FiringMode
from flykka.messages.tasks.bridge import (
    ChainClosed,
    ChainOpened,
    CommitPrepared,
    EngineFailed,
    InFlightWritten,
    OutputCommitted,
    RowsMoved,
    SnapshotWritten,
    WorkDone,
    WorkFailed,
    WorkProgress,
)
from flykka.messages.tasks.stage import (
    AbortCheckpoint,
    AdvanceProcessingTime,
    AdvanceWatermark,
    BridgeClosed,
    BridgeCommand,
    ChannelStateWritten,
    CheckpointCommitted,
    CloseBridge,
    CommitCheckpoint,
    HandleOperatorEvents,
    HoldInFlight,
    OpenBridge,
    ReadSplits,
    ReleaseBatches,
    RunStage,
    SnapshotFailed,
    SnapshotState,
    StageFailed,
    StageFinished,
    WriteChannelState,
)
from flykka.messages.tasks.task import TaskDeploymentDescriptor
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Value

AttemptEvent = BridgeCommand | WorkDone | WorkFailed | EngineFailed


class Life(StrEnum):
    """The phase of an attempt. A failed one has still to be closed; a closing one ends the work it has begun."""

    NEW = "new"
    OPEN = "open"
    FAILED = "failed"
    CLOSING = "closing"
    ENDING = "ending"
    ENDED = "ended"


_TAKES_WORK = frozenset({Life.NEW, Life.OPEN})


class Attempt:
    """The machine of one attempt. `handle` takes what the Task and the engine say."""

    def __init__(self, descriptor: TaskDeploymentDescriptor) -> None:
        self._descriptor = descriptor
        self._chain = ChainOpened(name=descriptor.vertex.name)
        self._traits = self._traits_of(self._chain)
        self._life = Life.NEW
        self._stages = StageQueue()
        self._background: deque[Job] = deque()
        self._snapshots = Snapshots()
        self._in_hand = WorkInHand(descriptor.vertex.name)

    def handle(self, event: AttemptEvent, now: int) -> list[AttemptEffect]:
        """Handle a command or an answer at `now` (ms)."""
        match event:
            case WorkDone(work=key, answer=answer):
                return self._on_done(key, answer, now)
            case WorkFailed():
                return self._on_work_failed(event, now)
            case EngineFailed(cause=cause):
                return self._fail(cause)
            case CloseBridge():
                return self._on_close(event, now)
            case ReleaseBatches(batch_ids=batch_ids):
                return [Release(batch_ids=batch_ids, holder=IN_TRANSIT)]
            case AbortCheckpoint(checkpoint_id=checkpoint_id):
                return self._on_abort(checkpoint_id)
            case _ if self._life not in _TAKES_WORK:
                return [Ignore(reason=f"the attempt is {self._life}")]
            case OpenBridge():
                return [self._open(event, now)]
            case (
                ReadSplits()
                | RunStage()
                | AdvanceWatermark()
                | AdvanceProcessingTime()
                | HandleOperatorEvents()
                | SnapshotState()
            ):
                return self._on_stage(event, now)
            case HoldInFlight(checkpoint_id=checkpoint_id, batch_ids=batch_ids):
                holder = checkpoint_holder(self._descriptor.attempt, checkpoint_id)
                hold = HoldBatches(checkpoint_id=checkpoint_id, batch_ids=batch_ids, holder=holder)
                return [self._in_hand.begin_work(hold, hold, now)]
            case WriteChannelState() | CommitCheckpoint():
                self._background.append(event)
                return self._next_in_background(now)
            case _:
                assert_never(event)

    def at_work(self, now: int) -> tuple[WorkProgress, ...]:
        """Work that the engine has been given and has not answered."""
        return self._in_hand.progress(now)

    @property
    def unanswered(self) -> dict[str, Work]:
        """The work that the engine has been given and has not answered, by key."""
        return self._in_hand.works

    def check(self) -> None:
        """Assert the invariants: of the background the first in line is at work at most, and nothing of what failed."""
        self._stages.check()
        jobs = self._in_hand.jobs
        assert jobs == list(self._background)[: len(jobs)], f"in the background are at work {jobs}"
        assert len(jobs) <= 1, f"two jobs are at work in the background: {jobs}"
        assert self._life is not Life.FAILED or not self._in_hand, "an attempt that has failed waits for work"

    # Commands

    def _open(self, command: OpenBridge, now: int) -> Begin:
        restore = command.restore
        work = Open(restore=without_channel_state(restore), recover=to_recover(self._descriptor, restore))
        return self._in_hand.begin_work(work, work, now)

    def _on_stage(self, command: StageCommand, now: int) -> list[AttemptEffect]:
        assert self._life is Life.OPEN, f"stage {command.stage} comes before the chain is open"
        self._stages.add(command, self._traits)
        return self._go_on(now)

    def _on_abort(self, checkpoint_id: int) -> list[AttemptEffect]:
        if self._chain.has_state or self._chain.has_sinks:
            self._snapshots.abort(checkpoint_id)
        return [self._let_go_of(checkpoint_id)]

    def _on_close(self, command: CloseBridge, now: int) -> list[AttemptEffect]:
        effects: list[AttemptEffect] = []
        if self._life is Life.ENDED:
            return [Ignore(reason="the attempt has ended")]
        if command.cancel or self._life is Life.FAILED:
            effects += [CancelWork(), *self._end(now, cancel=True)]
        elif self._life in _TAKES_WORK:
            self._life = Life.CLOSING
            effects += self._end_if_idle(now)
        if command.interrupt:
            effects.append(InterruptWork())
        return effects

    # Answers

    def _on_done(self, key: str, answer: Value | None, now: int) -> list[AttemptEffect]:
        done = self._in_hand.pop_work(key)
        if done is None:
            return [Ignore(reason=f"nothing waits for {key}")]
        match done.subject, answer:
            case Open() as opened, ChainOpened():
                return self._on_opened(opened, answer)
            case Stage() as stage, RowsMoved():
                self._stages.on_moved(stage, answer)
                return self._go_on(now)
            case Stage() as stage, None:
                stage.at_work = False
                return self._go_on(now)
            case Snapshot() as snapshot, CommitPrepared():
                return self._on_prepared(snapshot, answer, now)
            case CloseChain(), ChainClosed(accumulators=accumulators, failure=failure):
                self._life = Life.ENDED
                failed = () if failure is None else (TellTask(message=StageFailed(cause=failure)),)
                return [*failed, TellTask(message=BridgeClosed(accumulators=accumulators))]
            case HoldBatches(), None:
                return []
            case (Snapshot() | WriteChannelState() | CommitCheckpoint()) as job, _:
                return [*self._on_job_done(job, answer, now), *self._job_over(now)]
            case _:
                raise AssertionError(f"work {done.what} is answered with {answer}")

    def _on_opened(self, opened: Open, chain: ChainOpened) -> list[AttemptEffect]:
        self._chain = chain
        self._in_hand.chain_name = chain.name
        self._traits = self._traits_of(chain)
        if self._life is Life.NEW:
            self._life = Life.OPEN
        return [TellTask(message=bridge_opened(opened.recover, chain.recovered))]

    def _on_job_done(self, job: Job, answer: Value | None, now: int) -> list[AttemptEffect]:
        match job, answer:
            case Snapshot(), SnapshotWritten():
                return [TellTask(message=job.written(answer, self._snapshots.sink_rows.news(), now))]
            case Snapshot(), None:
                return [Ignore(reason=f"checkpoint {job.command.checkpoint_id} was aborted")]
            case WriteChannelState(checkpoint_id=checkpoint_id), InFlightWritten(folders=folders):
                state = channel_state(self._descriptor, job, folders)
                size_bytes = sum(folder.size_bytes for folder in folders)
                written = ChannelStateWritten(checkpoint_id=checkpoint_id, state=state, size_bytes=size_bytes)
                return [self._let_go_of(checkpoint_id), TellTask(message=written)]
            case CommitCheckpoint(checkpoint_id=checkpoint_id), OutputCommitted(files=files):
                # In one piece: what a commit publishes is told with its checkpoint, and with no stage.
                news = self._snapshots.commit(checkpoint_id)
                committed = CheckpointCommitted(checkpoint_id=checkpoint_id, files=files, sink_rows=news)
                return [TellTask(message=committed)]
            case _:
                raise AssertionError(f"{job} is answered with {answer}")

    def _on_prepared(self, snapshot: Snapshot, prepared: CommitPrepared, now: int) -> list[AttemptEffect]:
        work = self._snapshots.on_prepared(snapshot, prepared, has_state=self._chain.has_state)
        return self._job_over(now) if work is None else [self._in_hand.begin_work(work, snapshot, now)]

    def _on_work_failed(self, failed: WorkFailed, now: int) -> list[AttemptEffect]:
        work = self._in_hand.pop_work(failed.work)
        if work is None:
            return [Ignore(reason=f"nothing waits for {failed.work}")]
        if isinstance(work.subject, CloseChain):
            self._life = Life.ENDED
            return [TellTask(message=StageFailed(cause=failed.cause)), TellTask(message=BridgeClosed())]
        if failed.ends_attempt or not isinstance(work.work, Survivable):
            return self._fail(failed.cause)
        checkpoint_id = work.work.checkpoint_id
        if isinstance(work.work, HoldBatches):
            # Its reader was faster than the command; the next checkpoint does without it. As in Flink, nothing was
            # written yet.
            reason = CheckpointDeclineReason.CHECKPOINT_DECLINED
            return [TellTask(message=SnapshotFailed(checkpoint_id=checkpoint_id, cause=failed.cause, reason=reason))]
        declined = TellTask(message=SnapshotFailed(checkpoint_id=checkpoint_id, cause=failed.cause))
        released = [self._let_go_of(checkpoint_id)] if isinstance(work.work, WriteInFlight) else []
        return [*released, declined, *self._job_over(now)]

    # Stages

    def _go_on(self, now: int) -> list[AttemptEffect]:
        """Answer the stages that are over, and begin what may begin."""
        effects: list[AttemptEffect] = []
        while (stage := self._stages.next_over()) is not None:
            effects += self._finish(stage, now)
        for stage in self._stages.startable(self._chain.stages_in_flight):
            effects.append(self._in_hand.begin_work(stage.begin_next_work(now), stage, now))
        return effects + self._end_if_idle(now)

    def _finish(self, stage: Stage, now: int) -> list[AttemptEffect]:
        command, moved = stage.command, stage.moved
        took_ms = 0 if stage.begun_ms is None else now - stage.begun_ms
        self._snapshots.note_staged(moved.staged)
        released: list[AttemptEffect] = []
        if isinstance(command, RunStage):
            batch_ids = tuple(batch.batch_id for batch in command.batches)
            released = [Release(batch_ids=batch_ids, holder=self._descriptor.attempt)]
        written = None
        if isinstance(command, SnapshotState) and not (self._chain.has_state or self._snapshots.has_output):
            written = nothing_written(command.checkpoint_id)
        finished = StageFinished(
            stage=command.stage,
            outputs=moved.outputs,
            rows_in=moved.rows_in,
            rows_out=moved.rows_out,
            event_time_max=moved.event_time_max,
            event_time_min=moved.event_time_min,
            late_rows=moved.late_rows,
            duration_ms=took_ms,
            accumulators=moved.accumulators,
            snapshot=written,
            sink_rows=self._snapshots.sink_rows.news(),
            next_timer_ms=moved.next_timer_ms,
            partition_times=moved.partition_times,
            sent=moved.sent,
        )
        answered: list[AttemptEffect] = [*released, TellTask(message=finished)]
        if isinstance(command, SnapshotState) and written is None:
            self._background.append(self._snapshots.at_barrier(command, took_ms))
            answered += self._next_in_background(now)
        return answered

    # In the background

    def _next_in_background(self, now: int) -> list[AttemptEffect]:
        """Begin what is first in line, if it is not at work."""
        if not self._background or self._in_hand.jobs:
            return []
        job = self._background[0]
        match job:
            case Snapshot():
                job.begun_ms = now
                return [self._in_hand.begin_work(job.prepare(), job, now)]
            case WriteChannelState(checkpoint_id=checkpoint_id):
                parts = parts_to_write(self._descriptor, job)
                return [self._in_hand.begin_work(WriteInFlight(checkpoint_id=checkpoint_id, parts=parts), job, now)]
            case CommitCheckpoint(checkpoint_id=checkpoint_id):
                return [self._in_hand.begin_work(Commit(checkpoint_id=checkpoint_id), job, now)]
            case _:
                assert_never(job)

    def _job_over(self, now: int) -> list[AttemptEffect]:
        self._background.popleft()
        return [*self._next_in_background(now), *self._end_if_idle(now)]

    # The end

    def _fail(self, cause: SerializedThrowable) -> list[AttemptEffect]:
        """Nothing of the attempt is answered any more but its end."""
        if self._life in (Life.FAILED, Life.ENDING, Life.ENDED):
            return [Ignore(reason=f"the attempt is {self._life}")]
        self._life = Life.FAILED
        self._forget_work()
        return [TellTask(message=StageFailed(cause=cause))]

    def _end_if_idle(self, now: int) -> list[AttemptEffect]:
        if self._life is not Life.CLOSING or self._stages or self._background:
            return []
        return self._end(now, cancel=False)

    def _end(self, now: int, *, cancel: bool) -> list[AttemptEffect]:
        if self._life is Life.ENDING:
            return []
        self._life = Life.ENDING
        self._forget_work()
        close = CloseChain(cancel=cancel)
        return [self._in_hand.begin_work(close, close, now)]

    def _forget_work(self) -> None:
        self._stages.clear()
        self._background.clear()
        self._in_hand.clear()

    def _let_go_of(self, checkpoint_id: int) -> ReleaseHeldBy:
        return ReleaseHeldBy(holder=checkpoint_holder(self._descriptor.attempt, checkpoint_id))

    def _traits_of(self, chain: ChainOpened) -> ChainTraits:
        return ChainTraits(
            has_state=chain.has_state,
            has_outputs=bool(self._descriptor.outputs),
            fires_at_barriers=self._descriptor.vertex.firing_mode is FiringMode.ON_CHECKPOINT,
        )
