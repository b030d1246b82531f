"""The splits that a source's reader holds, and when it asks for more (Flink's SourceReader, without the reading).

Splits are asked for ahead of need, so that a stage never waits for the JobMaster: a fixed number, or as many small
ones as two batches take. What the reader holds unread is its state: it goes into the checkpoint, and comes back with
it. Where the parallelism has changed, splits of several readers come back to one; it reads them in the order in which
the source handed them out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from flykka.actors.machines.attempt.read_limit import ReadLimit
from flykka.actors.machines.state.operator_state import elements_of, list_state
from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.tasks.source import SourceSplit, UnreadSplit, files_in, size_of
from flykka.messages.wire.ids import OperatorId

_STATE = "SourceReaderState"
"""As Flink's SourceOperator calls it."""


class SplitReader:
    """The unread splits of one source subtask."""

    __slots__ = ("_ahead", "_asked", "_no_more", "_nothing", "_typical_cost", "_unread", "limit", "operator_id")

    def __init__(self, operator_id: OperatorId, ahead: int) -> None:
        """At least `ahead` splits are held or asked for at any time until there are no more."""
        self.operator_id = operator_id
        self.limit = ReadLimit()
        self._ahead = ahead
        # What one of those that came last costs; None until one has come that others may be read with.
        self._typical_cost: int | None = None
        self._unread: deque[UnreadSplit] = deque()
        self._asked = 0
        self._no_more = False
        # Of a source that waits for data every checkpoint holds the same.
        self._nothing = self._holding(())

    @property
    def has_unread(self) -> bool:
        """A split is there to be read."""
        return bool(self._unread)

    @property
    def files_unread(self) -> int:
        """The number of files to be read."""
        return files_in(unread.split for unread in self._unread)

    @property
    def batch_limit_bytes(self) -> int | None:
        """The limit of the next batch; None where splits are not read together."""
        return None if self._typical_cost is None else self.limit.bytes

    @property
    def is_little_unread(self) -> bool:
        """Something is left to read, which with more of it would be one batch, and fill no more than half of that."""
        if not self._unread or self._typical_cost is None:
            return False
        return 2 * sum(self.limit.cost(unread.split) for unread in self._unread) < self.limit.bytes

    @property
    def exhausted(self) -> bool:
        """Nothing is left to read and nothing more will come."""
        return self._no_more and not self._unread

    def restore(self, states: Iterable[OperatorSubtaskState]) -> None:
        """Take back the splits that a checkpoint found unread.

        Raises:
            UnreadableStateError: they cannot be read.
        """
        own = (state for state in states if state.operator_id == self.operator_id)
        self._unread.extend(sorted(elements_of(own, _STATE, UnreadSplit), key=lambda split: split.number))

    def snapshot(self) -> OperatorSubtaskState:
        """The splits that are unread now."""
        return self._holding(self._unread) if self._unread else self._nothing

    def _holding(self, splits: Iterable[UnreadSplit]) -> OperatorSubtaskState:
        return OperatorSubtaskState(operator_id=self.operator_id, operator_state=(list_state(_STATE, splits),))

    def splits_to_request(self) -> int:
        """The number of splits to ask for now; they count as asked for."""
        if self._no_more:
            return 0
        two_batches = 0 if self._typical_cost is None else 2 * self.limit.bytes // self._typical_cost
        ahead = max(self._ahead, two_batches)
        count = max(0, ahead - len(self._unread) - self._asked)
        self._asked += count
        return count

    def add(self, splits: tuple[SourceSplit, ...], numbers: tuple[int, ...] = ()) -> None:
        """Splits arrive, which were handed out as those of these numbers, where somebody counts."""
        counted = zip(splits, numbers or (0,) * len(splits), strict=True)
        self._unread.extend(UnreadSplit(split=split, number=number) for split, number in counted)
        self._asked = max(0, self._asked - len(splits))
        if splits:
            costs = [self.limit.cost(split) for split in splits]
            self._typical_cost = None if size_of(splits[-1]) is None else sum(costs) // len(costs)

    def no_more(self) -> None:
        """The enumerator has nothing left for this reader."""
        self._no_more = True

    def next(self) -> tuple[SourceSplit, ...]:
        """Take the splits of the next batch; none where nothing is there to be read."""
        count = self.limit.next_batch(unread.split for unread in self._unread)
        return tuple(self._unread.popleft().split for _ in range(count))
