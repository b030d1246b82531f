"""The two sides of a join, and how its operator is added to the program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams.program import check_one_program
from flykka.api.streams.transformation import Transformation, partitioned
from flykka.errors import StreamTypeError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.operators.code import KeyByCode
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSideCode

if TYPE_CHECKING:
    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.api.streams.program import Program
    from flykka.api.streams.transformation import Input
    from flykka.api.streams.windowed_rows import KeyedRows
    from flykka.spark_bridge.operators.code import LocalCode
    from flykka.spark_bridge.operators.join_code import JoinCode
    from flykka.spark_bridge.operators.join_side import JoinSide
    from flykka.spark_bridge.operators.temporal_join import TemporalJoinCode
    from flykka.spark_bridge.program.prototype import Column


class Joined(NamesElsewhere, ABC):
    """Two keyed streams, before it is said what is made of rows that meet."""

    def left_outer(self) -> Self:
        """Give results of left rows that meet none too, with nulls for the right side.

        Such a row is emitted when the watermark has passed all that it could have met.
        """
        return self._with(outer=frozenset([Side.LEFT]))

    def right_outer(self) -> Self:
        """Give results of right rows that meet none too, as `left_outer`."""
        return self._with(outer=frozenset([Side.RIGHT]))

    def full_outer(self) -> Self:
        """Give results of the rows of both sides that meet none too, as `left_outer`."""
        return self._with(outer=frozenset(Side))

    def on(self, condition: Column | str) -> Self:
        """Let rows meet only where a condition is true as well, over `left.` and `right.` columns."""
        return self._with(condition=condition)

    @abstractmethod
    def _with(self, **settings: Any) -> Self:
        """The same with other settings, among them `outer` and `condition`."""


def check_joined(verb: str, left: KeyedRows, right: KeyedRows) -> None:
    """Refuse sides that cannot be joined by event time.

    Raises:
        ProgramError: they are of two environments or jobs.
        StreamTypeError: one has no event time.
    """
    what = f"{verb} of {left._origins} with {right._origins}"
    check_one_program(what, left._program, right._program)
    for each in (left, right):
        if each._type.event_time is None:
            raise StreamTypeError(
                f"{what}: {each._origins} gives no event time to join by: its source has no timestamp column or no"
                " watermarks, or an operation has dropped or renamed the column"
            )


def joined_rows(
    side: KeyedRows, *, side_outputs_late_data: bool = False, windows: EventTimeWindows | None = None
) -> JoinedRows:
    """The rows of a side that was checked."""
    assert side._type.event_time is not None, "streams without event time are refused before"
    return JoinedRows(
        prototype=side._type.prototype,
        keys=side._keys,
        event_time=side._type.event_time,
        side_outputs_late_data=side_outputs_late_data,
        windows=windows,
    )


def add_join(
    program: Program, name: str, code: JoinCode, left: tuple[Input, ...], right: tuple[Input, ...]
) -> Transformation:
    """Add a join of these inputs; of each only what is needed is exchanged."""
    made = Transformation(
        kind=code.kind,
        position=program.next_position,
        name=name,
        code=code,
        inputs=(*_cut_down(left, code.left), *_cut_down(right, code.right)),
        # It is told of time, which the head of a chain is alone.
        chaining=ChainingStrategy.HEAD,
    )
    program.add(made)
    return made


def add_temporal_join(
    program: Program,
    name: str,
    code: TemporalJoinCode,
    inputs: tuple[tuple[Input, ...], tuple[Input, ...]],
    parts: tuple[LocalCode, LocalCode],
) -> Transformation:
    """Add a temporal join of the inputs of two sides, each with its part before the exchange."""
    key_by = KeyByCode(columns=code.keys)
    made = Transformation(
        kind=code.kind,
        position=program.next_position,
        name=name,
        code=code,
        inputs=tuple(
            replace(each, local_code=part)
            for side, part in zip(inputs, parts, strict=True)
            for each in partitioned(side, ShipStrategy.HASH, key_by)
        ),
        # It is told of time, which the head of a chain is alone.
        chaining=ChainingStrategy.HEAD,
    )
    program.add(made)
    return made


def _cut_down(inputs: tuple[Input, ...], side: JoinSide) -> tuple[Input, ...]:
    local_code, key_by = JoinSideCode(side=side), side.key_by
    return tuple(replace(each, key_by=key_by, local_code=local_code) for each in inputs)
