"""Joins and co-groups of two streams by window of event time, by Flink's names: where, equal_to, window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from flykka.api.foreign_names import NamesElsewhere
from flykka.api.streams.joined_inputs import Joined, add_join, check_joined, joined_rows
from flykka.api.streams.program import tried
from flykka.api.streams.stateless_verbs import listed, named
from flykka.api.streams.stream_type import StreamType
from flykka.api.streams.windowed_rows import KeyedRows
from flykka.errors import ProgramError, StreamTypeError
from flykka.spark_bridge.functions.event_time import OF_WINDOWS, WINDOW_END
from flykka.spark_bridge.functions.windowing.time_windows import PeriodicEventTimeWindows
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.join_code import CoGroupCode, WindowJoinCode, check_keys, pairs
from flykka.spark_bridge.operators.join_side import JoinSide
from flykka.spark_bridge.operators.process_functions import declared_rows
from flykka.spark_bridge.program.prototype import check_types, has_event_time
from flykka.spark_bridge.program.trials import checked_sendable
from flykka.spark_bridge.rows.type_support import Use

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.runtime.durations import Duration
    from flykka.spark_bridge.operators.join_code import CoGroupFunction
    from flykka.spark_bridge.program.functions import JoinOn
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType

W = TypeVar("W")

Windowed: TypeAlias = Callable[[KeyedRows, KeyedRows, PeriodicEventTimeWindows], W]
"""Makes what goes on behind the windows."""


class WindowJoinVerbs(ABC):
    """The verbs that join a stream with another one by window; `join` with a DataFrame is as of all streams."""

    @abstractmethod
    def key_by(self, *columns: Column | str) -> KeyedRows:
        """Bring the rows that agree in these columns together."""

    @abstractmethod
    def _join_static(self, static: DataFrame, on: JoinOn | None, how: str, refresh: Duration | None) -> DataStream:
        """Join every batch with a DataFrame."""

    @overload
    def join(self, static: WindowJoinVerbs) -> JoinedStreams[WindowJoined]: ...

    @overload
    def join(
        self, static: DataFrame, on: JoinOn | None = None, how: str = "inner", refresh: Duration | None = None
    ) -> DataStream: ...

    def join(
        self,
        static: WindowJoinVerbs | DataFrame,
        on: JoinOn | None = None,
        how: str = "inner",
        refresh: Duration | None = None,
    ) -> JoinedStreams[WindowJoined] | DataStream:
        """Join with another stream by window, or every batch with a DataFrame, which may change with `refresh`.

        Of streams, `.where(*keys).equal_to(*keys).window(windows).select(*columns)` goes on. Of a DataFrame, `how` is
        inner, left, left_semi, left_anti or cross: what keeps static rows that match nothing has no meaning batch by
        batch. The DataFrame is computed again for every batch, from where it is read, unless it is cached. It must give
        the same rows each time: a restarted job works on with what it reads then.

        With `refresh`, such as `"10min"`, its rows are kept for so long, by the clock of this machine, and read again
        for the first batch behind that; so are the names of its files. Each batch is joined with one version of them,
        and every row comes out once; which version it was joined with may differ from run to run.

        Raises:
            DurationError: `refresh` is no length of time above zero.
            ProgramError: streams are joined, and `on`, `how` or `refresh` is given.
            StreamTypeError: the columns do not fit, both sides have one of the same name beside those of `on`, or the
                kind of join is none of these.
        """
        if not isinstance(static, WindowJoinVerbs):
            return self._join_static(static, on, how, refresh)
        if on is not None or how != "inner" or refresh is not None:
            raise ProgramError(
                "a join of two streams goes on with .where(*keys).equal_to(*keys).window(windows), then"
                " .left_outer(), .right_outer() or .full_outer(), and .select(*columns): leave out on, how and refresh"
            )
        return JoinedStreams(self, static, WindowJoined)

    def co_group(self, other: WindowJoinVerbs) -> JoinedStreams[CoGrouped]:
        """Give a function the rows of both streams of each key and window.

        `.where(*keys).equal_to(*keys).window(windows).apply(function, output)` goes on.

        Raises:
            StreamTypeError: the other one is no DataStream.
        """
        if not isinstance(other, WindowJoinVerbs):
            raise StreamTypeError(f"co_group takes another DataStream, not a {type(other).__name__}")
        return JoinedStreams(self, other, CoGrouped)


class JoinedStreams(NamesElsewhere, Generic[W]):
    """Two streams, before it is said which rows of them belong together."""

    _foreign_names = ("window_join",)

    def __init__(self, left: WindowJoinVerbs, right: WindowJoinVerbs, windowed: Windowed[W]) -> None:
        self._left = left
        self._right = right
        self._windowed = windowed

    def where(self, *keys: Column | str) -> Where[W]:
        """Say by which columns the rows of the left stream are joined.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the left stream.
        """
        return Where(self._left.key_by(*keys), self._right, self._windowed)


class Where(NamesElsewhere, Generic[W]):
    """Two streams, of which the left one has keys."""

    _foreign_names = ("window_join",)

    def __init__(self, left: KeyedRows, right: WindowJoinVerbs, windowed: Windowed[W]) -> None:
        self._left = left
        self._right = right
        self._windowed = windowed

    def equal_to(self, *keys: Column | str) -> EqualTo[W]:
        """Say by which columns the rows of the right stream are joined, as many as of the left one, of the same types.

        Raises:
            ProgramError: no column is given, or the streams are of two environments or jobs.
            StreamTypeError: a column does not fit the right stream, or one of the two streams has no event time.
        """
        right = self._right.key_by(*keys)
        check_joined("join by window", self._left, right)
        return EqualTo(self._left, right, self._windowed)


class EqualTo(NamesElsewhere, Generic[W]):
    """Two streams with keys, before it is said in which windows rows meet."""

    _foreign_names = ("window_join",)

    def __init__(self, left: KeyedRows, right: KeyedRows, windowed: Windowed[W]) -> None:
        self._left = left
        self._right = right
        self._windowed = windowed

    def window(self, windows: PeriodicEventTimeWindows) -> W:
        """Let rows meet that are in the same window, tumbling or sliding, of event time.

        Raises:
            ProgramError: the windows are others.
        """
        if not isinstance(windows, PeriodicEventTimeWindows):
            raise ProgramError(
                f"the join of {self._left._origins} with {self._right._origins} takes tumbling or sliding windows of"
                f" event time, such as TumblingEventTimeWindows.of('1h'), not {type(windows).__name__}"
            )
        return self._windowed(self._left, self._right, windows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """A join by window, before it is said what is made of rows that meet."""

    outer: frozenset[Side] = frozenset()
    condition: Column | str | None = None


class WindowJoined(Joined):
    """Two streams, whose rows meet where they are in the same window."""

    _foreign_names = ("window_join",)

    def __init__(
        self, left: KeyedRows, right: KeyedRows, windows: PeriodicEventTimeWindows, settings: _Settings | None = None
    ) -> None:
        self._left = left
        self._right = right
        self._windows = windows
        self._settings = settings or _Settings()

    def select(self, *columns: Column | str) -> DataStream:
        """Make a row of two that meet: `window_start`, `window_end`, and these columns.

        `left.name` and `right.name` are columns of the two sides, `name` alone is one that only one side has, and
        `left.*` all of a side. A row comes out as soon as both are there, and once for each window that both are in.

        Raises:
            ProgramError: no column is given.
            StreamTypeError: a column does not fit the streams, both have it, or two results have one name; or the keys
                differ in number or type.
        """
        settings, name = self._settings, f"window_join({listed(*columns)})"
        what = f"{name} of {self._left._origins} with {self._right._origins}"
        if not columns:
            raise ProgramError(f"{what} needs at least one column, such as 'left.*'")

        def draft(left: JoinSide, right: JoinSide) -> WindowJoinCode:
            return WindowJoinCode(
                left=left,
                right=right,
                windows=self._windows,
                columns=columns,
                condition=settings.condition,
                outer=settings.outer,
                left_gates=len(self._left._inputs),
            )

        left, right = (joined_rows(side, windows=self._windows) for side in (self._left, self._right))
        prototype, code = tried(what, lambda: pairs(left, right, draft))
        made = add_join(self._left._program, name, code, self._left._inputs, self._right._inputs)
        return self._left._emitted(made, StreamType(prototype=prototype, event_time=OF_WINDOWS))

    def _with(self, **settings: Any) -> WindowJoined:
        return WindowJoined(self._left, self._right, self._windows, replace(self._settings, **settings))


class CoGrouped(NamesElsewhere):
    """Two streams, whose rows of a key and window go to a function together."""

    _foreign_names = ("window_join",)

    def __init__(self, left: KeyedRows, right: KeyedRows, windows: PeriodicEventTimeWindows) -> None:
        self._left = left
        self._right = right
        self._windows = windows

    def apply(self, function: CoGroupFunction, output: StructType | str) -> DataStream:
        """Have `function(left, right)` make rows of those of both sides of a key and window, when the window is over.

        All three are pandas frames, as `map_in_pandas` has them. The rows of each side have `window_start` and
        `window_end`, then their own other columns; a side may have none. Results have the columns of `output`, and an
        event time where `window_end` is one of them.

        Raises:
            StreamTypeError: `output` cannot be read, the function cannot be called in Spark's Python workers, or the
                keys of the streams differ in number or type.
        """
        name = f"co_group({named(function)})"
        what = f"{name} of {self._left._origins} with {self._right._origins}"

        def made() -> tuple[DataFrame, CoGroupCode]:
            left, right = (joined_rows(side, windows=self._windows) for side in (self._left, self._right))
            check_keys(left, right)
            for side in (left, right):
                check_types(side.prototype.schema, Use.GROUPS)
            prototype = declared_rows(left.prototype.sparkSession, output)
            check_types(prototype.schema, Use.GROUPS)
            code = CoGroupCode(
                left=JoinSide.of(left, left.prototype.columns),
                right=JoinSide.of(right, right.prototype.columns),
                windows=self._windows,
                function=checked_sendable(function),
                output=prototype.schema,
                outer=frozenset(Side),
                left_gates=len(self._left._inputs),
            )
            return prototype, code

        prototype, code = tried(what, made)
        operator = add_join(self._left._program, name, code, self._left._inputs, self._right._inputs)
        event_time = OF_WINDOWS if has_event_time(prototype, WINDOW_END) else None
        return self._left._emitted(operator, StreamType(prototype=prototype, event_time=event_time))
