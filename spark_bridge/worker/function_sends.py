"""Events and values that functions send, on their way to the driver: an accumulator of Spark, by call and partition.

A Spark task that has to run again sends again, in place of what it has sent before: its partition is the same. So every
batch is told once, however often its parts were computed.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext, cloudpickle

from flykka.spark_bridge.functions.operator_event_gateway import Sent


@dataclass(frozen=True, slots=True, kw_only=True)
class SentInPartition:
    """Events and values that a function has sent over the rows of a partition; functions of aggregates are pickled."""

    events: tuple[bytes, ...]
    updates: tuple[tuple[str, bytes], ...]
    functions: Mapping[str, bytes]


Sends = dict[tuple[int, int], SentInPartition]
"""By the number of the call of the operator, and the partition."""


class SendsParam:
    """Keeps the last for each place, as an `AccumulatorParam`."""

    def zero(self, value: Sends) -> Sends:
        return {}

    def addInPlace(self, value1: Sends, value2: Sends) -> Sends:
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOfFunction:
    """A call of an operator, in which its function may send, and what it knows of global aggregates.

    The accumulator is pickled: Spark has a task that unpickles one report it, and few tasks send anything.
    """

    number: int
    accumulator: bytes
    results: Mapping[str, bytes]

    def report(self, sent: Sent | None) -> None:
        """Have the driver know what was sent, when the task has succeeded."""
        if sent is None:
            return
        context: Any = TaskContext.get()
        functions = {name: _pickled(function) for name, function in sent.functions.items()}
        told = SentInPartition(events=sent.events, updates=sent.updates, functions=functions)
        pickle.loads(self.accumulator).add({(self.number, context.partitionId()): told})


def _pickled(function: object) -> bytes:
    pickled: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    return pickled
