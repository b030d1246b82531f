"""The interface of operators in one execution attempt, like Flink's StreamOperator.

Batches take the place of Flink's records; `Rows` is the engine's type for rows. An operator knows neither its readers
nor the time of its calls, which `OperatorChain` makes. Rows leave an operator as an `Output`, with a main output and
side outputs by name. A keyed operator reads the input gates, numbered by `gate` as in MultipleInputStreamOperator. All
other operators read the operator before them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from flykka.messages.checkpointing.checkpoint import CheckpointOptions
from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.tasks.exchange import WATERMARK_MIN, BatchRef
from flykka.messages.tasks.operator_event import AggregateResult, SentByFunction
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.functions.operator_states import Lists

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Element(Generic[Rows]):
    """A batch that an operator processes in stage `stage`. `batch` and `gate` are set if it came from another task.

    `watermark_ms` is the task's event time when the batch arrived, `processing_time_ms` the start time of the stage.
    """

    rows: Rows
    stage: int
    gate: int = 0
    batch: BatchRef | None = None
    watermark_ms: int = WATERMARK_MIN
    processing_time_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Generic[Rows]):
    """The rows that an operator emits to its main output, and the rows for its side outputs by name.

    A sink lists the names that it has `staged`, with `staged_rows` rows. With `updates_state`, `update_state` must be
    called in the order of the stages. `on_emitted` is called when all rows have been computed. From then on `late_rows`
    returns the number of input rows dropped as late, `event_times` returns the earliest and latest event time in ms for
    operators that create watermarks (None if no row has one, or it is not needed), and `sent` returns what the function
    has sent. With `read_again`, computing the rows again for another reader is cheaper than caching them.
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
    """An operator of a chain in one attempt. First `open` is called, then any other methods, then `close`.

    `process_batch` may be called for two stages at once, unless the operator `is_ordered`. `update_state`,
    `advance_watermark` and `snapshot_state` access state and are called in the order of the stages. Snapshots are
    written and checkpoints committed in the background. All calls may block, and may raise errors of the data plane.
    """

    keeps_state: ClassVar[bool] = False
    """True if snapshots contain keyed state of the operator."""

    def __init__(self, operator_id: OperatorId) -> None:
        self.operator_id = operator_id

    @property
    def commits(self) -> bool:
        """True if the operator must be notified when a checkpoint is complete."""
        return False

    @property
    def is_ordered(self) -> bool:
        """True if the operator must process batches one after the other."""
        return False

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        """Restore the operator from its state in a checkpoint, or from no states. Called once, before `open`."""

    def open(self) -> None: ...

    def process_batch(self, element: Element[Rows]) -> Output[Rows]:
        raise AssertionError(f"{self.operator_id} is a source, and processes no batches")

    def update_state(self, stage: int) -> None:
        """Add the results that `process_batch` had for a stage to the state."""

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Rows]:
        """Emit results that are complete at this watermark. Only called at the head of a chain."""
        return Output()

    def advance_processing_time(self, processing_time_ms: int, watermark_ms: int) -> Output[Rows]:
        """Fire the timers that are due at this processing time. Only called at the head of a chain."""
        return Output()

    def handle_operator_events(
        self, events: tuple[bytes, ...], watermark_ms: int, processing_time_ms: int
    ) -> Output[Rows]:
        """Pass events of the coordinator to the operator's function. Only called at the head of a chain."""
        raise AssertionError(f"{self.operator_id} has no coordinator")

    def record_aggregates(self, results: tuple[AggregateResult, ...]) -> None:
        """Record the results of global aggregates for the next batch. Only called at the head of a chain."""

    @property
    def next_timer_ms(self) -> int | None:
        """The earliest processing-time timer that has not fired (it may be deleted); None if there is none."""
        return None

    def before_snapshot(self, options: CheckpointOptions) -> Output[Rows] | None:
        """Emit rows before the barrier of a checkpoint (Flink's prepareSnapshotPreBarrier). Only called at the head of
        a chain.
        """
        return None

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        """Record the current state. With `everything` the snapshot refers to no files of other checkpoints."""

    def write_snapshot(self, checkpoint_id: int, savepoint: str | None) -> OperatorSnapshot:
        """Write the recorded state to durable storage, in the savepoint's folder if `savepoint` is set."""
        raise AssertionError(f"{self.operator_id} keeps no state")

    def discard_snapshot(self, checkpoint_id: int) -> None:
        """Drop the recorded state of an aborted checkpoint."""

    def prepare_commit(self, checkpoint_id: int, names: tuple[str, ...]) -> OperatorSubtaskState | None:
        """Prepare the rows staged under these names for a checkpoint. Return the operator's state for its snapshot."""
        return None

    def copied(self, prepared: OperatorSubtaskState, savepoint: str) -> OperatorSubtaskState:
        """Return prepared state in which the files that a commit moves are copies in the savepoint's folder."""
        return prepared

    def commit_checkpoint(self, checkpoint_id: int) -> tuple[str, ...]:
        """Commit a complete checkpoint. Return the files that have become visible."""
        return ()

    def close(self) -> None:
        """Release all resources except batches. Called once if `open` was called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSnapshot:
    state: OperatorSubtaskState
    incremental_bytes: int


def restored_lists(states: Sequence[OperatorSubtaskState]) -> Lists:
    return tuple(each for state in states for each in state.operator_state)


class MapOperator(Operator[tuple[Any, ...]]):
    def __init__(self, operator_id: OperatorId, function: Callable[[Any], Any]) -> None:
        super().__init__(operator_id)
        self._function = function

    def process_batch(self, element: Element[tuple[Any, ...]]) -> Output[tuple[Any, ...]]:
        return Output(rows=tuple(map(self._function, element.rows)))


class ListsAtBarriers:
    def __init__(self, operator_id: OperatorId) -> None:
        self._operator_id = operator_id
        self._lists: dict[int, Lists] = {}

    def record(self, checkpoint_id: int, lists: Lists) -> None:
        self._lists[checkpoint_id] = lists

    def write(self, checkpoint_id: int) -> OperatorSnapshot:
        """Create the snapshot of the recorded lists, which are small and stored in the checkpoint itself."""
        lists = self._lists.pop(checkpoint_id)
        size = sum(len(element) for each in lists for element in each.elements)
        state = OperatorSubtaskState(operator_id=self._operator_id, operator_state=lists)
        return OperatorSnapshot(state=state, incremental_bytes=size)

    def discard(self, checkpoint_id: int) -> None:
        self._lists.pop(checkpoint_id, None)
