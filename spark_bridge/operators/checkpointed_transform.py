"""The operator of a rich function with operator state, which works in the driver as Flink's functions do in a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from flykka.spark_bridge.functions.checkpointed_function import initialize_state, snapshot_state
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.operators.lists_at_barriers import ListsAtBarriers, restored_lists
from flykka.spark_bridge.operators.operator import OperatorSnapshot
from flykka.spark_bridge.operators.stateless import TransformOperator

if TYPE_CHECKING:
    from flykka.messages.state.handles import OperatorSubtaskState
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.code import TransformCode


class CheckpointedTransformOperator(TransformOperator):
    """Initializes the function before it is opened, and asks it for its state at each barrier."""

    keeps_state: ClassVar[bool] = True

    def __init__(self, context: OperatorContext, code: TransformCode) -> None:
        super().__init__(context, code)
        self._states = OperatorStates()
        self._at_barriers = ListsAtBarriers(context.operator_id)

    def restore(self, states: Sequence[OperatorSubtaskState]) -> None:
        is_restored = self.context.descriptor.restored_checkpoint_id is not None
        self._states = OperatorStates(restored_lists(states), is_restored=is_restored)

    def open(self) -> None:
        with self.context.naming_failures("initializing the state of operator"):
            initialize_state(self.function, self._states)
        super().open()

    def snapshot_state(self, checkpoint_id: int, *, everything: bool) -> None:
        """Note the state of the function. Raises `OperatorFailedError`."""
        with self.context.naming_failures("snapshotting the state of operator"):
            self._at_barriers.note(checkpoint_id, snapshot_state(self.function, self._states, checkpoint_id))

    def write_snapshot(self, checkpoint_id: int, savepoint: str | None) -> OperatorSnapshot:
        return self._at_barriers.write(checkpoint_id)

    def discard_snapshot(self, checkpoint_id: int) -> None:
        self._at_barriers.discard(checkpoint_id)
