"""The name of a side output, as Flink's OutputTag."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.errors import ProgramError


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Names a side output where it is declared and where it is read. Tags of one id are the same tag.

    Raises:
        ProgramError: the id is empty, or no text.
    """

    id: str

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise ProgramError(f"the id of an OutputTag must be a text that is not empty, not {self.id!r}")
