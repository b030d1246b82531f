"""Lists of operator state in checkpoints: small, and part of the checkpoints themselves."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.messages.state.handles import OperatorSubtaskState
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.functions.operator_states import Lists
from flykka.spark_bridge.operators.operator import OperatorSnapshot


def restored_lists(states: Sequence[OperatorSubtaskState]) -> Lists:
    return tuple(each for state in states for each in state.operator_state)


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
