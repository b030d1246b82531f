"""The verbs that cut rows into windows: those of each key, or all rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from flykka.api.streams.program import at_least_one
from flykka.api.streams.windowed_rows import WindowSettings
from flykka.errors import ProgramError, StreamTypeError
from flykka.spark_bridge.functions.windowing.evictors import CountEvictor
from flykka.spark_bridge.functions.windowing.session_windows import GlobalWindows
from flykka.spark_bridge.functions.windowing.triggers import CountTrigger, PurgingTrigger
from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner

if TYPE_CHECKING:
    from flykka.api.streams.stream_type import StreamType


Windowed = TypeVar("Windowed")
"""The rows in windows."""


class WindowVerbs(ABC, Generic[Windowed]):
    """Windows of each key."""

    _type: StreamType

    @property
    @abstractmethod
    def _origins(self) -> str:
        """The origins of the rows, for messages."""

    @abstractmethod
    def _windowed(self, settings: WindowSettings) -> Windowed:
        """Return the rows in windows."""

    def window(self, assigner: WindowAssigner) -> Windowed:
        """Cut each key's rows into windows.

        They are tumbling or sliding windows or sessions, each of event time or of processing time, `GlobalWindows` with
        a trigger, or what a subclass of `WindowAssigner` assigns.

        Raises:
            ProgramError: `assigner` is none.
            StreamTypeError: windows of event time, and the stream has none, or an operation before has dropped its
                column.
        """
        if not isinstance(assigner, WindowAssigner):
            raise ProgramError(
                f"windows after {self._origins} take an assigner such as TumblingEventTimeWindows.of('1h') or"
                f" EventTimeSessionWindows.with_gap('30min'), not {assigner!r}"
            )
        if assigner.is_event_time() and self._type.event_time is None:
            raise StreamTypeError(
                f"{self._origins} gives no event time to window by: its source has no timestamp column or no"
                " watermarks, or an operation has dropped or renamed the column"
            )
        return self._windowed(WindowSettings(assigner=assigner))

    def count_window(self, size: int, slide: int | None = None) -> Windowed:
        """Cut each key's rows into windows of `size` rows.

        They follow each other; with a `slide` a window of the last `size` rows, or of all where there are fewer, fires
        at every `slide` rows. A window that is not full at the end of the stream does not fire.

        Raises:
            ProgramError: a number is none from 1.
        """
        at_least_one(size, "number of rows of a window")
        settings = WindowSettings(assigner=GlobalWindows.create())
        if slide is None:
            return self._windowed(replace(settings, trigger=PurgingTrigger.of(CountTrigger.of(size))))
        at_least_one(slide, "number of rows between windows")
        return self._windowed(replace(settings, trigger=CountTrigger.of(slide), evictor=CountEvictor.of(size)))
