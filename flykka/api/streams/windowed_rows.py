"""Rows that are cut into windows, and how these are cut."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.output_tag import OutputTag
    from flykka.api.streams.program import Program
    from flykka.api.streams.side_outputs import SideOutputs
    from flykka.api.streams.stream_type import StreamType
    from flykka.api.streams.transformation import Input, Transformation
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.functions.windowing.evictors import Evictor
    from flykka.spark_bridge.functions.windowing.trigger import Trigger
    from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner
    from flykka.spark_bridge.operators.process import ProcessCode
    from flykka.spark_bridge.program.prototype import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """Windows, before it is said what is made of them. Without a trigger they have that of their assigner."""

    assigner: WindowAssigner
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness_ms: int = 0
    late_data_tag: OutputTag | None = None


class KeyedRows(ABC):
    """Rows that are cut into windows or joined, and become streams again. Without keys they are all in one subtask."""

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

    @abstractmethod
    def _processed(
        self,
        name: str,
        code: ProcessCode,
        prototype: DataFrame,
        late_data_tag: OutputTag | None = None,
        event_time: EventTime | None = None,
    ) -> DataStream:
        """Add the operator of this name that calls functions; its rows have that event time, else the stream's."""
