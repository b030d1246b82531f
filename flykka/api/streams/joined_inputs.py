"""The two sides of a join, and how its operator is added to the program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy
from flykka.api.streams.transformation import Transformation
from flykka.errors import ProgramError, StreamTypeError
from flykka.spark_bridge.operators.join_side import JoinedRows, JoinSideCode

if TYPE_CHECKING:
    from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.program import Program
    from flykka.api.streams.side_outputs import SideOutputs
    from flykka.api.streams.stream_type import StreamType
    from flykka.api.streams.transformation import Input
    from flykka.spark_bridge.operators.join_code import JoinCode
    from flykka.spark_bridge.operators.join_side import JoinSide
    from flykka.spark_bridge.program.prototype import Column


class KeyedSide(ABC):
    """Keyed rows that may be a side of a join."""

    _program: Program
    _inputs: tuple[Input, ...]
    _type: StreamType
    _keys: tuple[Column | str, ...]

    @property
    @abstractmethod
    def _origins(self) -> str:
        """The origins of the rows, for messages."""

    @abstractmethod
    def _emitted(
        self, made: Transformation, row_type: StreamType, side_outputs: SideOutputs | None = None
    ) -> DataStream:
        """The stream of what an operator emits."""


def check_joined(verb: str, left: KeyedSide, right: KeyedSide) -> None:
    """Refuse sides that cannot be joined by event time.

    Raises:
        ProgramError: they are of two environments or jobs.
        StreamTypeError: one has no event time.
    """
    what = f"{verb} of {left._origins} with {right._origins}"
    if right._program is not left._program:
        raise ProgramError(f"{what}: they are of two environments, or of two jobs of one environment")
    for each in (left, right):
        if each._type.event_time is None:
            raise StreamTypeError(
                f"{what}: {each._origins} gives no event time to join by: its source has no timestamp column or no"
                " watermarks, or an operation has dropped or renamed the column"
            )


def joined_rows(
    side: KeyedSide, *, side_outputs_late_data: bool = False, windows: EventTimeWindows | None = None
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


def _cut_down(inputs: tuple[Input, ...], side: JoinSide) -> tuple[Input, ...]:
    local_code = JoinSideCode(side=side)
    return tuple(replace(each, key_by=side.key_by, local_code=local_code) for each in inputs)
