"""The stages of an attempt in their order: which command is next, which has to wait, and what is sent after a stage.

The rows of some stages are moved side by side, so that the planning of one overlaps the work of another. What sees the
state of the chain is done in the order of the stages, and they end in that order. What the attempt sends between two
stages (a watermark, a barrier, the end of data) must not overtake the rows of the first: it waits in line here until
every stage before it has ended.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from flykka.actors.machines.attempt.checkpoints import Checkpoint
from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import ProcessBatch, ReadSplits, StageCommand, UpdateState
from flykka.messages.tasks.exchange import WATERMARK_MIN, CheckpointBarrier

STAGES_IN_FLIGHT = 2
"""Two: the planning of one stage overlaps the work of the other; a third only adds memory."""

Follower = TypeVar("Follower")


@dataclass(slots=True, kw_only=True, eq=False)
class Stage:
    """A stage: its command, what the attempt needs when it ends, and its result.

    `channels` are those of the batches that it processes, None for one that was recovered: their credits are returned.
    `cost` is that of the splits that it reads, by the reader's limit. `barrier` is sent after the snapshot of its
    `checkpoint`; `watermark_ms` is that of the inputs then, and `fired_ms` goes down before the barrier, if any does.
    """

    command: StageCommand
    channels: tuple[int | None, ...] = ()
    cost: int = 0
    barrier: CheckpointBarrier | None = None
    checkpoint: Checkpoint | None = None
    watermark_ms: int = WATERMARK_MIN
    fired_ms: int | None = None
    since_ms: int = 0
    next: StageCommand | None = field(init=False)
    begun_ms: int | None = None
    at_work: bool = False
    result: StageResult = field(init=False)

    def __post_init__(self) -> None:
        self.next = self.command
        self.result = StageResult(stage=self.command.stage)

    @property
    def is_over(self) -> bool:
        """No work of it is left."""
        return not self.at_work and self.next is None

    @property
    def moves_rows(self) -> bool:
        """Its next work needs no state: it may be done beside that of other stages."""
        return isinstance(self.next, ReadSplits | ProcessBatch)


class StageLine(Generic[Follower]):
    """The stages in flight, and what is sent after them. `limit` of them may be in flight."""

    __slots__ = ("_in_flight", "_line", "_next_stage", "limit")

    def __init__(self) -> None:
        self.limit = STAGES_IN_FLIGHT
        self._next_stage = 0
        self._in_flight = 0
        self._line: deque[Stage | Follower] = deque()

    @property
    def in_flight(self) -> int:
        """The number of stages in line."""
        return self._in_flight

    @property
    def next_stage(self) -> int:
        """The number of the stage that is added next, from 0."""
        return self._next_stage

    @property
    def stages(self) -> list[Stage]:
        """The stages in line, the oldest first."""
        return [each for each in self._line if isinstance(each, Stage)]

    @property
    def has_room(self) -> bool:
        """True if another stage may be added."""
        return self._in_flight < self.limit

    def add(self, stage: Stage, now: int) -> None:
        """Put a stage in line. Barriers may exceed the limit: they must not wait for room."""
        assert stage.command.stage == self._next_stage, f"stage {stage.command.stage} is not {self._next_stage}"
        stage.since_ms = now
        self._next_stage += 1
        self._in_flight += 1
        self._line.append(stage)

    def add_follower(self, follower: Follower) -> None:
        """Let `follower` be sent when everything before it has ended; take it with `released`."""
        self._line.append(follower)

    def begin_work(self, now: int) -> list[StageCommand]:
        """Begin what may be begun: of the first stage anything, of the others only what moves rows."""
        commands: list[StageCommand] = []
        for place, stage in enumerate(islice(self.stages, self.limit) if self._in_flight else ()):
            if not stage.at_work and stage.next is not None and (place == 0 or stage.moves_rows):
                commands.append(stage.next)
                stage.begun_ms = now if stage.begun_ms is None else stage.begun_ms
                stage.at_work, stage.next = True, None
        return commands

    def on_result(self, result: StageResult) -> bool:
        """The rows of a stage are moved, and whether they change state is known; False if no stage waits for it."""
        stage = self._at_work(result.stage)
        if stage is None:
            return False
        stage.result = result
        stage.at_work = False
        if result.updates_state:
            stage.next = UpdateState(stage=result.stage)
        return True

    def on_done(self, command: StageCommand) -> bool:
        """Work of a stage that has no result is done; False if no stage waits for it."""
        stage = self._at_work(command.stage)
        if stage is None:
            return False
        stage.at_work = False
        return True

    def pop_over(self) -> Stage | None:
        """Take out the oldest stage, if it is over."""
        if not self._line or not isinstance(self._line[0], Stage) or not self._line[0].is_over:
            return None
        self._in_flight -= 1
        stage = self._line.popleft()
        assert isinstance(stage, Stage)
        return stage

    def released(self) -> list[Follower]:
        """Followers with no stage before them, in order; each is given out once."""
        free: list[Follower] = []
        while self._line and not isinstance(self._line[0], Stage):
            free.append(self._line.popleft())  # type: ignore[arg-type]
        return free

    def clear(self) -> None:
        """Drop all stages and followers: no answer is waited for any more."""
        self._line.clear()
        self._in_flight = 0

    def check(self) -> None:
        """Assert the invariants: numbers grow, and after the first stage only rows are moved."""
        stages = self.stages
        numbers = [stage.command.stage for stage in stages]
        assert len(stages) == self._in_flight
        assert numbers == sorted(set(numbers))
        assert all(number < self._next_stage for number in numbers)
        assert all(isinstance(each.command, ReadSplits | ProcessBatch) for each in stages[1:] if each.at_work)

    def _at_work(self, number: int) -> Stage | None:
        return next((each for each in self.stages if each.command.stage == number and each.at_work), None)
