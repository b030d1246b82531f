"""Which splits a source's reader holds and when it asks for more (Flink's SourceReader, without the reading).

Splits are asked for ahead of need, so that a stage never waits for the JobMaster. What the reader holds unread is its
state: it goes into the checkpoint, and comes back with it.
"""

from __future__ import annotations

from collections import deque

from flykka.messages.codec import decode, encode
from flykka.messages.ids import OperatorId
from flykka.messages.source import SourceSplit, SplitReaderState
from flykka.messages.state import OperatorSubtaskState


class SplitReader:
    """The unread splits of one source subtask."""

    def __init__(self, operator_id: OperatorId, ahead: int) -> None:
        """`ahead` splits are held or asked for at any time until there are no more."""
        self.operator_id = operator_id
        self._ahead = ahead
        self._unread: deque[SourceSplit] = deque()
        self._asked = 0
        self._no_more = False

    @property
    def has_unread(self) -> bool:
        """A split is there to be read."""
        return bool(self._unread)

    @property
    def exhausted(self) -> bool:
        """Nothing is left to read and nothing more will come."""
        return self._no_more and not self._unread

    def restore(self, state: OperatorSubtaskState) -> None:
        """Take back the splits that a checkpoint found unread."""
        restored = decode(state.operator_state)
        assert isinstance(restored, SplitReaderState), f"{state.operator_id} restored from {type(restored).__name__}"
        self._unread.extend(restored.splits)

    def snapshot(self) -> OperatorSubtaskState:
        """What is unread now."""
        held = SplitReaderState(splits=tuple(self._unread))
        return OperatorSubtaskState(operator_id=self.operator_id, operator_state=encode(held))

    def splits_to_request(self) -> int:
        """How many splits to ask for now; they count as asked for."""
        if self._no_more:
            return 0
        count = max(0, self._ahead - len(self._unread) - self._asked)
        self._asked += count
        return count

    def add(self, splits: tuple[SourceSplit, ...]) -> None:
        """Splits arrive."""
        self._unread.extend(splits)
        self._asked = max(0, self._asked - len(splits))

    def no_more(self) -> None:
        """The enumerator has nothing left for this reader."""
        self._no_more = True

    def next(self) -> SourceSplit | None:
        """Take the next split to read, if there is one."""
        return self._unread.popleft() if self._unread else None
