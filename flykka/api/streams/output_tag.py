"""The name of a side output, as Flink's OutputTag."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flykka.errors import ProgramError

if TYPE_CHECKING:
    from flykka.spark_bridge.program.prototype import StructType


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Names a side output where it is written and where it is read. Tags of one id are the same tag.

    `columns` are those of its rows, as DDL or as Spark's type; a side output for late rows needs none, for it has those
    of the rows that are cut into windows.

    Raises:
        ProgramError: the id is empty, or no text.
    """

    id: str
    columns: StructType | str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise ProgramError(f"the id of an OutputTag must be a text that is not empty, not {self.id!r}")

    def __repr__(self) -> str:
        return f"OutputTag({self.id!r})"
