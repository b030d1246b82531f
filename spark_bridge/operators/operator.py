"""The operator port: what an operator is asked for in one execution attempt, as Flink's StreamOperator is.

Batches are what Flink's records are; `Rows` is whatever an engine moves. An operator knows neither what reads it nor
when it is called: `OperatorChain` decides that. Rows leave an operator as an `Output`, the main one and side outputs by
name. A keyed operator reads the input gates (`gate` says which, as in MultipleInputStreamOperator); all others read the
operator before them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.tasks.exchange import WATERMARK_MIN, BatchRef
from flykka.messages.tasks.operator_event import AggregateResult, SentByFunction
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.functions.operator_states import Lists

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Element(Generic[Rows]):
    """A batch that an operator processes, as stage `stage`; `batch` and its gate where it came from another task.

    `watermark_ms` is the task's event time when it came, `processing_time_ms` the time at which the stage was begun.
    """

    rows: Rows
    stage: int
    gate: int = 0
    batch: BatchRef | None = None
    watermark_ms: int = WATERMARK_MIN
    processing_time_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Generic[Rows]):
    """The rows that an operator emits: for its readers, and for those of its side outputs by their names.

    A sink names what it has `staged`, of `staged_rows` rows. With `updates_state` the operator is to `update_state` in
    the order of the stages. `on_emitted` is called when all rows were computed. The number of input rows that were
    dropped, for they came too late, is told by `late_rows` then. What makes watermarks tells by `event_times` the
    earliest and the latest event time of its rows in ms; None where no row has one, or it is not looked for. Rows that
    are `read_again` are sooner computed once more for a further reader than kept for it. What its function has `sent`
    is told when the rows were computed.
    """

    rows: Rows | None = None
    side: Mapping[str, Rows] = field(default_factory=dict)
    staged: tuple[str, ...] = ()
    staged_rows: int = 0
    updates_state: bool = False
    read_again: bool = False
    on_emitted: Callable[[], object] | None = None
    late_rows: Callable[[], int] | None = None
    event_times: Callable[[], tuple[int | None, int | None]] | None = None
    sent: Callable[[], SentByFunction | None] | None = None


class Operator(Generic[Rows]):
    """An operator of a chain in one attempt; it is used as `open`, then anything, then `close`.

    `process_batch` may be called for two stages at once, unless the operator `is_ordered`. What sees state is called in
    the order of the stages: `update_state`, `advance_watermark` and `snapshot_state`. What a snapshot writes, and what
    a complete checkpoint makes of it, is background work. All may block, and raise what the data plane raises.
    """

    keeps_state: ClassVar[bool] = False
    """True if snapshots hold keyed state of it."""

    def __init__(self, operator_id: OperatorId) -> None:
        self.operator_id = operator_id

    @property
    def commits(self) -> bool:
        """True if there is something for it to do when a checkpoint is complete."""
        return False

    @property
    def is_ordered(self) -> bool:
        """True if it has to process one batch after the other."""
        return False

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        """Begin with what a checkpoint holds of the operator, or with nothing; called once, before `open`."""

    def open(self) -> None:
        """Make ready what `process_batch` needs."""

    def process_batch(self, element: Element[Rows]) -> Output[Rows]:
        raise AssertionError(f"{self.operator_id} reads no other operator")

    def update_state(self, stage: int) -> None:
        """Add to the state what `process_batch` has made of the batch of a stage."""

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Rows]:
        """Emit what is complete when no row up to this event time is to come. Only the head of a chain is asked."""
        return Output()

    def advance_processing_time(self, processing_time_ms: int, watermark_ms: int) -> Output[Rows]:
        """Fire the timers that processing time has come to. Only the head of a chain is asked."""
        return Output()

    def handle_operator_events(
        self, events: tuple[bytes, ...], watermark_ms: int, processing_time_ms: int
    ) -> Output[Rows]:
        """Give its function events of its coordinator. Only the head of a chain is asked."""
        raise AssertionError(f"{self.operator_id} has no coordinator")

    def record_aggregates(self, results: tuple[AggregateResult, ...]) -> None:
        """Note the results of global aggregates, for the next batch. Only the head of a chain is told."""

    @property
    def next_timer_ms(self) -> int | None:
        """The first processing-time timer that has not fired, or one that was deleted; None where there is none."""
        return None

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        """Note the state as it is; with `everything` nothing that other checkpoints have written is referred to."""

    def write_snapshot(self, checkpoint_id: int, savepoint: str | None) -> OperatorSnapshot:
        """Make durable what was noted; for a savepoint in its folder."""
        raise AssertionError(f"{self.operator_id} keeps no state")

    def discard_snapshot(self, checkpoint_id: int) -> None:
        """Let go of what was noted: the checkpoint was aborted."""

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> OperatorSubtaskState | None:
        """Prepare what was staged for a checkpoint under these names; what this and later snapshots hold of it."""
        return None

    def copied(self, prepared: OperatorSubtaskState, savepoint: str) -> OperatorSubtaskState:
        """Return what was prepared, with copies in a savepoint's folder of all files that a commit moves."""
        return prepared

    def commit_checkpoint(self, checkpoint_id: int) -> tuple[str, ...]:
        """A checkpoint is complete: commit; the files that readers can see now."""
        return ()

    def close(self) -> None:
        """Let go of what the operator holds beside batches. Called once, where `open` was begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSnapshot:
    """The durable state of an operator, and how many bytes of it are new."""

    state: OperatorSubtaskState
    incremental_bytes: int


def restored_lists(states: Sequence[OperatorSubtaskState]) -> Lists:
    return tuple(each for state in states for each in state.operator_state)


class MapOperator(Operator[tuple[Any, ...]]):
    """Makes of each slice of a batch another one."""

    def __init__(self, operator_id: OperatorId, function: Callable[[Any], Any]) -> None:
        super().__init__(operator_id)
        self._function = function

    def process_batch(self, element: Element[tuple[Any, ...]]) -> Output[tuple[Any, ...]]:
        return Output(rows=tuple(map(self._function, element.rows)))


class ListsAtBarriers:
    """The operator state of each checkpoint that is being taken."""

    def __init__(self, operator_id: OperatorId) -> None:
        self._operator_id = operator_id
        self._noted: dict[int, Lists] = {}

    def note(self, checkpoint_id: int, lists: Lists) -> None:
        self._noted[checkpoint_id] = lists

    def write(self, checkpoint_id: int) -> OperatorSnapshot:
        """Make a snapshot of what was noted, which is small and part of the checkpoint itself."""
        lists = self._noted.pop(checkpoint_id)
        size = sum(len(element) for each in lists for element in each.elements)
        state = OperatorSubtaskState(operator_id=self._operator_id, operator_state=lists)
        return OperatorSnapshot(state=state, incremental_bytes=size)

    def discard(self, checkpoint_id: int) -> None:
        self._noted.pop(checkpoint_id, None)
