"""SideOutputDataStream: the rows of a side output, which leave in the tasks of the operator that gives them."""

from __future__ import annotations

from typing import Literal, Self

from flykka.api.streams.data_stream import DataStream
from flykka.errors import ProgramError


class SideOutputDataStream(DataStream):
    """The rows that an operator gives to a side output. They leave in the task of that operator."""

    def set_parallelism(self, parallelism: int | Literal["auto"]) -> Self:
        """Raises `ProgramError`: it is that of the operator."""
        raise self._set_elsewhere("parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Raises `ProgramError`: it is that of the operator."""
        raise self._set_elsewhere("maximum parallelism")

    def slot_sharing_group(self, group: str) -> Self:
        """Raises `ProgramError`: it is that of the operator."""
        raise self._set_elsewhere("slot sharing group")

    def _set_elsewhere(self, what: str) -> ProgramError:
        windows = self._transformation.inputs[0].source
        return ProgramError(f"the {what} of {self._transformation} is that of {windows}, in whose tasks it runs")
