"""The stages of an attempt in the order of their commands: what of each is at work, and what has to wait.

The rows of some stages are moved side by side, so that the planning of one hides behind the work of another. What sees
the state of the chain is done in the order of the stages, and so are their answers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from flykka.actors.machines.bridge.effects import (
    AdvanceTo,
    FireTimers,
    HandleEvents,
    NoteState,
    Process,
    Read,
    UpdateState,
    Work,
)
from flykka.messages.checkpointing.checkpoint import SnapshotType
from flykka.messages.tasks.bridge import RowsMoved
from flykka.messages.tasks.stage import (
    AdvanceProcessingTime,
    AdvanceWatermark,
    HandleOperatorEvents,
    ReadSplits,
    RunStage,
    SnapshotState,
)

StageCommand = ReadSplits | RunStage | AdvanceWatermark | AdvanceProcessingTime | HandleOperatorEvents | SnapshotState


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTraits:
    """Traits of a chain that decide the work of its stages: the state that it keeps, and when its windows fire."""

    has_state: bool
    has_outputs: bool
    fires_at_barriers: bool

    def work_of(self, command: StageCommand) -> deque[Work]:
        """The work of a stage, in its order; what is behind moved rows is known when they are moved."""
        match command:
            case ReadSplits():
                return deque([Read(command=command)])
            case RunStage():
                return deque([Process(command=command)])
            case AdvanceWatermark(stage=stage, watermark_ms=watermark_ms, processing_time_ms=now_ms):
                return deque([AdvanceTo(stage=stage, watermark_ms=watermark_ms, processing_time_ms=now_ms)])
            case AdvanceProcessingTime(stage=stage, processing_time_ms=now_ms, watermark_ms=watermark_ms):
                return deque([FireTimers(stage=stage, processing_time_ms=now_ms, watermark_ms=watermark_ms)])
            case HandleOperatorEvents():
                return deque([HandleEvents(command=command)])
            case SnapshotState() if self.has_state:
                return deque(self._at_barrier(command))
            case _:
                return deque()

    def _at_barrier(self, command: SnapshotState) -> list[Work]:
        fires_to = command.watermark_ms if self.fires_at_barriers else None
        firing: list[Work] = []
        if fires_to is not None and self.has_outputs:
            # What fires with the checkpoint goes down before the barrier does.
            firing, fires_to = [AdvanceTo(stage=command.stage, watermark_ms=fires_to)], None
        noting = NoteState(
            stage=command.stage,
            checkpoint_id=command.checkpoint_id,
            watermark_ms=fires_to,
            everything=command.options.snapshot_type is not SnapshotType.CHECKPOINT,
        )
        return [*firing, noting]


@dataclass(slots=True, kw_only=True, eq=False)
class Stage:
    """A stage: the work that is left of it, and what it has moved so far."""

    command: StageCommand
    to_do: deque[Work]
    begun_ms: int | None = None
    moved: RowsMoved = field(default_factory=RowsMoved)
    at_work: bool = False

    def begin_next_work(self, now: int) -> Work:
        """Begin the next of its work."""
        self.at_work = True
        self.begun_ms = now if self.begun_ms is None else self.begun_ms
        return self.to_do.popleft()

    @property
    def is_over(self) -> bool:
        """True if no work of it is left."""
        return not self.at_work and not self.to_do

    def may_go_on(self, *, is_first: bool) -> bool:
        """True if the next of its work may begin: beside other stages only rows are moved."""
        return not self.at_work and bool(self.to_do) and (is_first or isinstance(self.to_do[0], Read | Process))


class StageQueue:
    """The stages that are not answered yet."""

    def __init__(self) -> None:
        self._stages: deque[Stage] = deque()

    def __bool__(self) -> bool:
        return bool(self._stages)

    def add(self, command: StageCommand, traits: ChainTraits) -> None:
        """Put a stage behind the others."""
        self._stages.append(Stage(command=command, to_do=traits.work_of(command)))

    def next_over(self) -> Stage | None:
        """Take out the oldest stage, where nothing of it is left."""
        if self._stages and self._stages[0].is_over:
            return self._stages.popleft()
        return None

    def startable(self, in_flight: int) -> list[Stage]:
        """The stages of which some work is to begin, of the first `in_flight`."""
        first = islice(self._stages, in_flight)
        return [stage for place, stage in enumerate(first) if stage.may_go_on(is_first=place == 0)]

    def on_moved(self, stage: Stage, moved: RowsMoved) -> None:
        """The rows of a stage are moved; whether they change state is known from now on."""
        stage.at_work = False
        stage.moved = moved
        if moved.updates_state:
            stage.to_do.append(UpdateState(stage=stage.command.stage))

    def clear(self) -> None:
        """Answer none of them."""
        self._stages.clear()

    def check(self) -> None:
        """Assert the invariants: numbers grow, and behind the first stage only rows are moved."""
        numbers = [stage.command.stage for stage in self._stages]
        assert numbers == sorted(set(numbers))
        waiting = list(islice(self._stages, 1, None))
        assert not any(stage.at_work and not isinstance(stage.command, ReadSplits | RunStage) for stage in waiting)
