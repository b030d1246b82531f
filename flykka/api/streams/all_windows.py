"""Windows over all rows of a stream, whatever their keys (Flink's windowAll and AllWindowedStream)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from flykka.api.streams.windowed_stream import AnyWindowedStream
from flykka.spark_bridge.functions.windowing.window_function import ProcessAllWindowFunction

if TYPE_CHECKING:
    from flykka.api.streams.window_verbs import WindowVerbs
    from flykka.spark_bridge.functions.windowing.window_assigner import WindowAssigner


class AllWindowedStream(AnyWindowedStream[ProcessAllWindowFunction]):
    """The rows of a stream, cut into windows without keys. Functions of windows are `ProcessAllWindowFunction`s."""

    _window_function = ProcessAllWindowFunction


class AllWindows(ABC):
    """A stream whose rows can be cut into windows all together."""

    @abstractmethod
    def _all_rows(self) -> WindowVerbs[AllWindowedStream]:
        """Bring all rows together in one subtask."""

    def window_all(self, assigner: WindowAssigner) -> AllWindowedStream:
        """Cut all rows into windows without keys, as `window` of a keyed stream does those of each key.

        As in Flink they are put together in one subtask. Aggregates of columns that are made of parts are computed
        before, in the subtasks that the rows come from, and a tumbling or sliding window has one row of each batch:
        that is no bottleneck. Everything else has that one subtask work on all rows.

        Raises:
            ProgramError: `assigner` is none.
            StreamTypeError: windows of event time, and the stream has none, or an operation before has dropped its
                column.
        """
        return self._all_rows().window(assigner)

    def count_window_all(self, size: int, slide: int | None = None) -> AllWindowedStream:
        """Cut all rows into windows of `size` rows, as `count_window` of a keyed stream does those of each key.

        Raises:
            ProgramError: a number is none from 1.
        """
        return self._all_rows().count_window(size, slide)
