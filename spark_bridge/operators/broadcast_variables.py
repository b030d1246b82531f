"""Broadcast variables of one execution attempt (Flink's BroadcastVariableManager).

An attempt reads the rows of its variables before all other rows. They are collected in the driver, for functions that
run there, and sent to Python workers as a Spark broadcast variable. Every checkpoint of the subtask contains them,
because the operators that produced them have finished and do not run again after a restore. So they should be small.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from flykka.messages.state.handles import (
    OperatorListState,
    OperatorStateMode,
    OperatorSubtaskState,
    StateElement,
    TaskStateSnapshot,
)
from flykka.messages.wire.codec import decode, encode
from flykka.spark_bridge.functions.column_types import column_type
from flykka.spark_bridge.functions.stored_bytes import from_bytes, to_bytes
from flykka.spark_bridge.worker.job_resources import BroadcastRows, part_of, rows_of
from flykka.spark_bridge.worker.time_columns import collected_table

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from flykka.messages.graph.job_graph import JobVertex
    from flykka.messages.wire.ids import OperatorId
    from flykka.spark_bridge.functions.emission import Row

logger = logging.getLogger("flykka.spark_bridge")

STATE_PREFIX = "broadcast variable "

_BYTES = column_type("binary", "broadcast variable")


class BroadcastVariable:
    """The rows of one variable. A call returns them, in the driver or, after pickling, in a worker."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._lock = Lock()
        self._broadcast: Broadcast[tuple[bytes, ...]] | None = None
        self.parts: tuple[bytes, ...] = ()
        self.is_restored = False

    def __call__(self) -> list[Row]:
        return rows_of(self.parts)

    def __reduce__(self) -> tuple[type[BroadcastRows], tuple[Any]]:
        with self._lock:
            if self._broadcast is None:
                self._broadcast = self._session.sparkContext.broadcast(self.parts)
            return BroadcastRows, (self._broadcast,)

    def close(self) -> None:
        with self._lock:
            broadcast, self._broadcast = self._broadcast, None
        if broadcast is not None:
            try:
                broadcast.destroy()
            except (OSError, Py4JError) as gone:
                logger.info("a broadcast variable could not be released, and is left to Spark: %s", gone)


class BroadcastVariables:
    def __init__(self, vertex: JobVertex, session: SparkSession) -> None:
        names = {gate: edge.broadcast_variable for gate, edge in enumerate(vertex.inputs)}
        self._operator_id: OperatorId = vertex.operators[0].operator_id
        self._of_gate = {gate: name for gate, name in names.items() if name is not None}
        self.by_name: Mapping[str, BroadcastVariable] = {
            name: BroadcastVariable(session) for name in self._of_gate.values()
        }

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def is_gate(self, gate: int) -> bool:
        return gate in self._of_gate

    def add(self, gate: int, rows: DataFrame) -> None:
        """Collect rows of a variable. Blocks. Ignores rows of a restored variable, which are the same rows or none."""
        variable = self.by_name[self._of_gate[gate]]
        if not variable.is_restored:
            variable.parts += (part_of(collected_table(rows)),)

    def restore(self, restore: TaskStateSnapshot | None) -> TaskStateSnapshot | None:
        """Restore the variables of a checkpoint, and return the snapshot without them."""
        if restore is None or not self:
            return restore
        return replace(restore, operators=tuple(map(self._without_variables, restore.operators)))

    def _without_variables(self, state: OperatorSubtaskState) -> OperatorSubtaskState:
        others: list[OperatorListState] = []
        for each in state.operator_state:
            variable = self.by_name.get(each.name.removeprefix(STATE_PREFIX))
            if not each.name.startswith(STATE_PREFIX):
                others.append(each)
            elif variable is not None:
                variable.parts = tuple(map(_part, each.elements))
                variable.is_restored = True
        return replace(state, operator_state=tuple(others))

    def added_to(self, states: Sequence[OperatorSubtaskState]) -> tuple[OperatorSubtaskState, ...]:
        """Return the states of the attempt's operators, in which the state of the head operator contains the
        variables.
        """
        lists = tuple(_list_of(name, variable.parts) for name, variable in self.by_name.items())
        if not lists:
            return tuple(states)
        of_head = [state for state in states if state.operator_id == self._operator_id]
        head = of_head[0] if of_head else OperatorSubtaskState(operator_id=self._operator_id)
        others = (state for state in states if state is not head)
        return (replace(head, operator_state=(*head.operator_state, *lists)), *others)

    def close(self) -> None:
        for variable in self.by_name.values():
            variable.close()


def _list_of(name: str, parts: tuple[bytes, ...]) -> OperatorListState:
    elements = tuple(map(_element, parts))
    return OperatorListState(name=f"{STATE_PREFIX}{name}", elements=elements, mode=OperatorStateMode.BROADCAST)


def _element(part: bytes) -> bytes:
    return encode(StateElement(type=str(_BYTES), data=to_bytes(part, _BYTES)))


def _part(element: bytes) -> bytes:
    read = decode(element)
    assert isinstance(read, StateElement), f"a broadcast variable contains a {type(read).__name__}"
    part: bytes = from_bytes(read.data, _BYTES)
    return part
