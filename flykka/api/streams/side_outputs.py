"""The side outputs of operators, and their readers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flykka.api.streams.program import Program, try_on_prototype
from flykka.api.streams.stream_type import StreamType
from flykka.api.streams.transformation import Input, Transformation
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.process import ProcessCode
from flykka.spark_bridge.operators.process_functions import declared_rows
from flykka.spark_bridge.operators.stateless import SideOutputCode
from flykka.spark_bridge.program.side_output import SideOutput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flykka.spark_bridge.program.prototype import StructType


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Identifies a side output for its writer and its readers. Tags with the same id are equal.

    `columns` declares the columns of the side output, as DDL or a Spark type. They can be omitted for late rows, which
    have the columns of the windowed stream.

    Raises:
        ProgramError: the id is empty, or not a string.
    """

    id: str
    columns: StructType | str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise ProgramError(f"the id of an OutputTag must be a non-empty string, not {self.id!r}")

    def __repr__(self) -> str:
        return f"OutputTag({self.id!r})"


def check_tag(verb: str, tag: object) -> None:
    if not isinstance(tag, OutputTag):
        raise ProgramError(f"{verb} takes an OutputTag, such as OutputTag('late'), not {tag!r}")


class SideOutputs(ABC):
    def __init__(self, operator: Transformation) -> None:
        self.operator = operator

    @abstractmethod
    def read(self, tag: OutputTag) -> tuple[str, StreamType]:
        """Return the name of a tag's side output in the operator's code, and the type of its rows.

        Raises:
            ProgramError: the operator has no such side output.
        """

    def add_reader(self, program: Program, tag: OutputTag) -> tuple[Transformation, StreamType]:
        """Add an operator that forwards the rows of a side output, in the same task as the operator that emits them."""
        name, row_type = self.read(tag)
        operator = Transformation(
            kind=OperatorKind.STATELESS,
            position=program.next_position,
            name=f"get_side_output({tag.id})",
            code=SideOutputCode(tag=name),
            inputs=(Input(source=self.operator),),
        )
        program.add(operator)
        return operator, row_type


class OwnOutputs(SideOutputs):
    """The predefined side outputs of an operator: by tag, the name in its code and the type of the rows."""

    def __init__(self, operator: Transformation, tags: Mapping[OutputTag, tuple[str, StreamType]]) -> None:
        super().__init__(operator)
        self._tags = tags

    def read(self, tag: OutputTag) -> tuple[str, StreamType]:
        if tag not in self._tags:
            raise ProgramError(f"{self.operator} has no side output {tag!r}, only {', '.join(map(repr, self._tags))}")
        return self._tags[tag]


@dataclass(frozen=True, slots=True)
class _Read:
    output: SideOutput
    row_type: StreamType


class FunctionOutputs(SideOutputs):
    """The side outputs of a function that have a reader. Rows for other side outputs are dropped, as in Flink.

    `late_data_tag` is the tag for late rows of windows, which have the same type as `main`.
    """

    def __init__(self, operator: Transformation, main: StreamType, late_data_tag: OutputTag | None = None) -> None:
        super().__init__(operator)
        self._main = main
        self._late_data_tag = late_data_tag
        self._read: dict[str, _Read] = {}

    def read(self, tag: OutputTag) -> tuple[str, StreamType]:
        columns = self._main.prototype.schema if tag == self._late_data_tag else tag.columns
        if columns is None:
            raise ProgramError(
                f"get_side_output after {self.operator} needs to know the columns of {tag!r}: name them, as in"
                f" OutputTag({tag.id!r}, 'id bigint, reason string')"
            )
        what = f"get_side_output({tag.id})"
        prototype = try_on_prototype(what, lambda: declared_rows(self._main.prototype.sparkSession, columns))
        there = self._read.get(tag.id)
        if there is not None and there.output.columns != prototype.schema:
            raise ProgramError(
                f"{self.operator} has two tags of the id {tag.id!r}, with the columns"
                f" {there.output.columns.simpleString()} and {prototype.schema.simpleString()}"
            )
        if there is None:
            output = SideOutput(tag=tag.id, column=f"__side_{len(self._read)}", columns=prototype.schema)
            there = self._read[tag.id] = _Read(output, self._main.of_rows(prototype))
            code = self.operator.code
            assert isinstance(code, ProcessCode), "the operator has no function that could write side outputs"
            self.operator.code = replace(code, side=(*code.side, output))
        return tag.id, there.row_type
