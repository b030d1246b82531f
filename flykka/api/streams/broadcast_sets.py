"""Broadcast variables: bounded streams that functions of an operator read as a whole (Flink's withBroadcastSet)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from flykka.api.runtime_mode import is_unbounded
from flykka.api.streams.operator_settings import OperatorSettings
from flykka.api.streams.program import check_one_program, tried
from flykka.api.streams.transformation import partitioned
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.functions.shown import shown
from flykka.spark_bridge.operators.process import ProcessCode
from flykka.spark_bridge.operators.stateless import TransformCode
from flykka.spark_bridge.program.prototype import check_types
from flykka.spark_bridge.program.rich_function import RichFunction
from flykka.spark_bridge.rows.type_support import Use

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.transformation import Input, Transformation


class BroadcastSets(OperatorSettings, ABC):
    """The setting of an operator whose functions read broadcast variables."""

    def with_broadcast_set(self, stream: DataStream, name: str) -> Self:
        """Let functions of this operator read all rows of a bounded stream: `ctx.get_broadcast_variable(name)`.

        The operator begins when the stream has come to its end, and has its rows as dicts, in no order, in every
        subtask from `open` on. They are kept in its checkpoints: after a restart, and in a job that goes on from one,
        they are the same. In a streaming program the stream and what it is made of feed broadcast variables alone.
        Where the operator is written, and its function tried, a variable is empty.

        Raises:
            ProgramError: this is no operator with a function that has a context; `stream` is no stream of this program,
                has no end, or depends on this operator; or the operator has a variable of this name.
        """
        made = self._transformation
        what = f"with_broadcast_set(..., {name!r}) of {made}"
        if not isinstance(name, str) or not name.strip():
            raise ProgramError(f"the name of a broadcast variable of {made} must be a text that names it, not {name!r}")
        if not isinstance(stream, BroadcastSets):
            raise ProgramError(f"{what} takes a stream, not {shown(stream)}")
        if not _has_context(made):
            raise ProgramError(
                f"{what}: it has no function that could read the variable; process(...) has, window functions, and"
                " transform(...) of a RichFunction"
            )
        check_one_program(what, self._program, stream._program)
        if any(read.broadcast_variable == name for read in made.inputs):
            raise ProgramError(f"{what}: it has a broadcast variable of this name")
        _check(what, made, stream._inputs)
        tried(what, lambda: check_types(stream.schema, Use.GROUPS))
        rows = partitioned(stream._inputs, ShipStrategy.BROADCAST)
        self._program.add_inputs(made, tuple(replace(each, broadcast_variable=name) for each in rows))
        return self


def _has_context(made: Transformation) -> bool:
    code = made.code
    return isinstance(code, ProcessCode) or (
        isinstance(code, TransformCode) and isinstance(code.function, RichFunction)
    )


def _check(what: str, reader: Transformation, inputs: tuple[Input, ...]) -> None:
    for made in _all_before(inputs):
        if made is reader:
            raise ProgramError(f"{what}: the stream is made of rows of the operator itself, which waits for its end")
        if is_unbounded(made):
            raise ProgramError(
                f"{what}: a broadcast variable is read when it is whole, and the source {made} ({made.call_site}) has"
                " no end: read what is there now, without monitor_continuously(...) and with a number of rows; rows"
                " that come for ever are for connect(rules.broadcast(descriptor))"
            )


def _all_before(inputs: tuple[Input, ...]) -> Iterator[Transformation]:
    seen: set[Transformation] = set()
    ahead = [each.source for each in inputs]
    while ahead:
        made = ahead.pop()
        if made not in seen:
            seen.add(made)
            yield made
            ahead += [each.source for each in made.inputs]
