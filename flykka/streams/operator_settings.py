"""What a user may say about one operator after writing it down: its names, its parallelism, its slots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from flykka.errors import ProgramError
from flykka.streams.program import at_least_one

if TYPE_CHECKING:
    from flykka.streams.program import Program
    from flykka.streams.transformation import Transformation


class OperatorSettings(ABC):
    """What can be said about the operator that a stream or a sink stands for."""

    _program: Program

    @property
    @abstractmethod
    def _transformation(self) -> Transformation:
        """The operator. Raises `ProgramError` where the stream is none."""

    def name(self, name: str) -> Self:
        """Name the operator for those who read traces and the console."""
        self._transformation.name = name
        return self

    def uid(self, uid: str) -> Self:
        """Name the operator for good: its state is found by this.

        Raises:
            DuplicateUidError: the uid is taken.
            ProgramError: it is empty.
        """
        self._program.set_uid(self._transformation, uid)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Run the operator in this many subtasks.

        Raises:
            ProgramError: the number is below 1.
        """
        self._transformation.parallelism = at_least_one(parallelism, f"parallelism of {self._transformation}")
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Cut its keys into this many key groups: it can never be scaled to more subtasks.

        Raises:
            ProgramError: the number is below 1.
        """
        what = f"maximum parallelism of {self._transformation}"
        self._transformation.max_parallelism = at_least_one(max_parallelism, what)
        return self

    def slot_sharing_group(self, group: str) -> Self:
        """Let its subtasks share slots with this group's only."""
        self._transformation.slot_sharing_group = group
        return self


class DataStreamSink(OperatorSettings):
    """The end of a stream."""

    def __init__(self, program: Program, transformation: Transformation) -> None:
        self._program = program
        self._operator = transformation
        # Nobody but the sink itself has said anything of it so far.
        self._parallelism_limit = transformation.parallelism

    def set_parallelism(self, parallelism: int) -> Self:
        """Run the sink in this many subtasks.

        Raises:
            ProgramError: the number is below 1, or above 1 for a sink that runs in one subtask only.
        """
        limit = self._parallelism_limit
        if limit is not None and parallelism > limit:
            raise ProgramError(f"the parallelism of {self._transformation} is {limit} at most, not {parallelism}")
        return super().set_parallelism(parallelism)

    @property
    def _transformation(self) -> Transformation:
        return self._operator
