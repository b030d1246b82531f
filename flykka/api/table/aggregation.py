"""GROUP BY: running aggregates, window aggregates, and keys without aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from flykka.api.streams.stream_type import APPEND_ONLY
from flykka.api.table.relation import (
    IsEventTime,
    IsKey,
    IsWindow,
    Relation,
    Role,
    Rows,
    distinct,
    label,
    leaf,
    with_changelog,
)
from flykka.api.table.retractions import RetractingAggregates
from flykka.api.table.weighted import (
    StreamOf,
    aggregate,
    only_columns,
    recomputed,
    weighted,
    with_empty_row,
    with_weights,
)
from flykka.api.table.windows import CutRows, cut_rows
from flykka.spark_bridge.functions.event_time import WINDOW_END, WINDOW_START
from flykka.spark_bridge.functions.windowing.session_windows import EventTimeSessionWindows
from flykka.spark_bridge.program.functions import counted_rows, only_key
from flykka.spark_bridge.sql.plan_columns import named, window_struct
from flykka.spark_bridge.sql.plan_node import COMPUTED
from flykka.spark_bridge.sql.row_kinds import is_exact_sum, no_weight
from flykka.spark_bridge.sql.table_types import marks_type
from flykka.spark_bridge.worker.first_rows import FirstOfValues
from flykka.spark_bridge.worker.weighted_rows import WEIGHT

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.spark_bridge.functions.windowing.time_windows import PeriodicEventTimeWindows
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_columns import PlanColumns
    from flykka.spark_bridge.sql.plan_node import Expression, PlanNode


class DistinctCalls:
    """Marks the first row with each value in a group, for aggregates with DISTINCT.

    Aggregates over the marked rows can be combined from partial aggregates. One operator per argument keeps the values
    seen so far.
    """

    def __init__(self, calls: Sequence[Expression], columns: PlanColumns) -> None:
        """Create the marks for the DISTINCT calls, each with one argument."""
        self._columns = columns
        self._calls = [call for call in calls if call.java.isDistinct()]
        self._arguments: list[Expression] = []
        for call in self._calls:
            if not any(call.called.children[0].equals(known) for known in self._arguments):
                self._arguments.append(call.called.children[0])
        self._names: dict[int, tuple[str, str]] = {}

    def marked(self, stream: DataStream, keys: Sequence[Column]) -> DataStream:
        """Return the stream with columns of marks; without DISTINCT calls the stream is returned unchanged."""
        for argument in self._arguments:
            stream = self._marked_by(stream, argument, keys)
        return stream

    def column(self, call: Expression) -> Column:
        """Return the column of an aggregate call; a DISTINCT call aggregates only the marked rows."""
        place = next((place for place, each in enumerate(self._calls) if each is call), None)
        if place is None:
            return self._columns.column(call)
        value, mark = self._names[place]
        return self._columns.over_marked_rows(call, named(value), named(mark))

    def _marked_by(self, stream: DataStream, argument: Expression, keys: Sequence[Column]) -> DataStream:
        places = [place for place, call in enumerate(self._calls) if call.called.children[0].equals(argument)]
        columns = stream.columns
        value, *marks = distinct(["value", *("mark" for _ in places)], taken=columns)
        self._names.update((place, (value, mark)) for place, mark in zip(places, marks, strict=True))
        conditions = {mark: self._columns.counts(self._calls[place]) for place, mark in zip(places, marks, strict=True)}
        stream = stream.with_columns({value: self._columns.column(argument), **conditions}).name(
            f"values of {argument.sql}"
        )
        *groups, last = distinct([*("key" for _ in keys), "key"], taken=stream.columns)
        keyed = stream.key_by(
            *(key.alias(name) for key, name in zip(keys, groups, strict=True)), named(value).alias(last)
        )
        function = FirstOfValues(keys=(*groups, last), columns=tuple(stream.columns), conditions=tuple(marks))
        marking = keyed.process_table(function, state=marks_type(marks), output=stream.schema)
        return marking.name(f"distinct {argument.sql}")


_OF_PARTS = frozenset({"Count", "Sum", "Min", "Max", "Average"})


def is_of_parts(call: Expression) -> bool:
    """Return True if a call over appended rows can be combined from partial aggregates, if need be by DistinctCalls."""
    return call.called.kind in _OF_PARTS and (not call.java.isDistinct() or len(call.called.children) == 1)


def aggregated(
    node: PlanNode,
    below: Callable[[PlanNode], Relation],
    stream_of: StreamOf,
    time_to_live_ms: int | None,
    *,
    as_weights: bool,
) -> Relation:
    """Plan an aggregate; `below` plans its input. Running aggregates are weighted rows if `as_weights`, else upserts.

    The time-to-live applies to the rows of recomputed aggregates.

    Raises:
        RefusedError: the windows are not supported on streams.
    """
    cut = cut_rows(node)
    relation = below(node.children[0] if cut is None else cut.source)
    if cut is not None and not (is_of_event_time(cut, relation) and _has_results(cut, node)):
        relation = with_weights(relation, cut.source) if relation.is_changing else relation
        for each in reversed(cut.nodes):
            relation = relation.then(each)
        cut = None
    rows = relation.settled(carries_keys=True)
    return _Aggregate(node, rows, cut, stream_of, time_to_live_ms, as_weights=as_weights).relation()


def _has_results(cut: CutRows, node: PlanNode) -> bool:
    """Return True if the windows can compute the aggregates: sessions are merged from partial aggregates."""
    calls = (each for output in node.part("aggregateExpressions") for each in output.walk())
    return not isinstance(cut.windows, EventTimeSessionWindows) or all(
        each.called.kind in _OF_PARTS and not each.java.isDistinct()
        for each in calls
        if each.kind == "AggregateExpression"
    )


def is_of_event_time(cut: CutRows, relation: Relation) -> bool:
    """Return True for windows over the event time of append-only rows. The watermark closes these windows."""
    event_time = relation.stream.flow.type.event_time
    is_event_time = isinstance(relation.roles.get(cut.time.column_id), IsEventTime)
    return not relation.is_changing and is_event_time and event_time is not None and not event_time.offset_ms


class _Aggregate:
    def __init__(
        self,
        node: PlanNode,
        rows: Rows,
        cut: CutRows | None,
        stream_of: StreamOf,
        time_to_live_ms: int | None,
        *,
        as_weights: bool,
    ) -> None:
        self._stream_of = stream_of
        self._time_to_live_ms = time_to_live_ms
        self._as_weights = as_weights
        self._node = node
        self._rows = rows
        self._cut = cut
        self._outputs = node.part("aggregateExpressions")
        self._keys = tuple(
            each for each in node.part("groupingExpressions") if cut is None or not each.equals(cut.expression)
        )

    def relation(self) -> Relation:
        windows = self._windows()
        if self._has_sessions:
            return self._recomputed()
        if self._rows.stream.changelog != APPEND_ONLY:
            if not all(map(is_exact_sum, (call for call, _ in self._calls))):
                return self._recomputed()
            keys = tuple(zip(self._key_columns, self._key_names, strict=True))
            stream = RetractingAggregates(
                self._rows, keys, self._calls, self._stream_of, as_weights=self._as_weights
            ).stream
        elif windows is None and not all(is_of_parts(call) for call, _ in self._calls):
            return self._recomputed()
        elif windows is None and not self._calls:
            chosen = self._rows.stream.select(*self._key_columns).name(label("select", self._key_names))
            stream = chosen.drop_duplicates()
        else:
            stream = self._running() if windows is None else self._windowed(windows)
            stream.name(label("aggregate", (f"{call.sql} AS {name}" for call, name in self._calls)))
        return self._selected(stream, is_windowed=windows is not None)

    @property
    def _has_sessions(self) -> bool:
        """True if a key is a session that no watermark closes: later rows extend it, and join it with others."""
        return any(key.is_session for key in self._keys)

    def _recomputed(self) -> Relation:
        rows = only_columns(weighted(self._rows), self._node.columns_read)
        if not self._keys:
            rows = replace(rows, stream=with_empty_row(rows.stream, self._stream_of, WEIGHT, no_weight()))
        keys = [rows.columns.column(key) for key in self._keys if not key.is_session]
        outputs = [
            next((each.attribute.id for each in self._outputs if _is(each, key)), COMPUTED) for key in self._keys
        ]
        name = label("aggregate", (call.sql for call, _ in self._calls))
        unique = None if self._has_sessions else outputs
        return recomputed([self._node], rows, keys, name, unique, self._time_to_live_ms)

    @cached_property
    def _calls(self) -> tuple[tuple[Expression, str], ...]:
        calls: list[tuple[Expression, str]] = []
        for output in self._outputs:
            for each in output.walk():
                if each.kind != "AggregateExpression" or any(each.equals(known) for known, _ in calls):
                    continue
                is_all = output.kind == "Alias" and output.children[0] is each
                calls.append((each, output.attribute.name if is_all else each.sql))
        names = distinct((name for _, name in calls), taken=(*self._key_names, WINDOW_START, WINDOW_END))
        return tuple((call, name) for (call, _), name in zip(calls, names, strict=True))

    @cached_property
    def _key_names(self) -> tuple[str, ...]:
        """The key columns' names: the names of the output columns if these are the unchanged keys."""
        found = (
            next((output.attribute.name for output in self._outputs if _is(output, key)), key.display_name)
            for key in self._keys
        )
        return distinct(found, taken=(WINDOW_START, WINDOW_END))

    @cached_property
    def _key_columns(self) -> tuple[Column, ...]:
        columns = self._rows.columns
        named_keys = zip(self._keys, self._key_names, strict=True)
        return tuple(columns.column(key).alias(name) for key, name in named_keys)

    @property
    def _call_columns(self) -> tuple[Column, ...]:
        columns = self._rows.columns
        return tuple(columns.column(call).alias(name) for call, name in self._calls)

    def _windows(self) -> PeriodicEventTimeWindows | EventTimeSessionWindows | None:
        if self._cut is not None:
            return self._cut.windows
        for key in self._keys:
            role = self._rows.roles.get(key.column_id)
            if isinstance(role, IsWindow) and role.panes is not None:
                return role.panes
        return None

    def _running(self) -> DataStream:
        calls = DistinctCalls([call for call, _ in self._calls], self._rows.columns)
        stream = calls.marked(self._rows.stream, self._key_columns)
        aggregates = tuple(calls.column(call).alias(name) for call, name in self._calls)
        keyed = stream.key_by(*(self._key_columns or (only_key(),)))
        running = aggregate(keyed, aggregates, WEIGHT if self._as_weights else None)
        if self._keys:
            return running
        return with_changelog(running, replace(running.changelog, keys=()))

    def _windowed(self, windows: PeriodicEventTimeWindows | EventTimeSessionWindows) -> DataStream:
        calls = self._call_columns or (counted_rows("rows"),)
        if not self._keys:
            return self._rows.stream.window_all(windows).aggregate(*calls)
        return self._rows.stream.key_by(*self._key_columns).window(windows).aggregate(*calls)

    def _selected(self, stream: DataStream, *, is_windowed: bool) -> Relation:
        """Select the outputs, computed from window, keys and aggregates.

        After the outputs come the end of the window as event time, the weight, or the row kind after upsert keys that
        are not outputs.
        """
        roles = {each.attribute.id: role for each in self._outputs if (role := self._role(each)) is not None}
        there = {role.name for role in roles.values() if isinstance(role, IsKey)}
        log = stream.changelog
        lost = [] if log.weight is not None else [key for key in log.keys or () if key not in there]
        after = WINDOW_END if is_windowed else log.weight or log.row_kind
        behind = (*lost, after) if after is not None else tuple(lost)
        names = distinct((each.attribute.name for each in self._outputs), taken=behind)
        if tuple(stream.columns) != (*names, *behind):
            columns, known = self._rows.columns, self._known()
            named_outputs = zip(self._outputs, names, strict=True)
            outputs = [columns.column(each, known).alias(name) for each, name in named_outputs]
            stream = stream.select(*outputs, *map(named, behind))
            stream.name(label("select", names))
        return leaf(Rows(stream=stream, output=self._node.output, called=names, roles=roles), self._node)

    def _known(self) -> Sequence[tuple[Expression, Column]]:
        keys = [(key, named(name)) for key, name in zip(self._keys, self._key_names, strict=True)]
        window = [] if self._cut is None else [(self._cut.expression, window_struct())]
        return [*window, *keys, *((call, named(name)) for call, name in self._calls)]

    def _role(self, output: Expression) -> Role | None:
        if self._cut is not None:
            window = IsWindow(panes=self._cut.panes, size_ms=self._cut.size_ms)
            if _is(output, self._cut.expression):
                return window
            value = output.children[0] if output.kind == "Alias" else output
            if value.kind == "GetStructField" and value.children[0].equals(self._cut.expression):
                return window.part(value.field)
        for key, name in zip(self._keys, self._key_names, strict=True):
            if _is(output, key):
                role = self._rows.roles.get(key.column_id)
                return role if isinstance(role, IsWindow) else IsKey(name=name)
        return None


def _is(output: Expression, grouping: Expression) -> bool:
    """True if an output is a grouping expression, possibly under another name."""
    value = output.children[0] if output.kind == "Alias" else output
    return value.equals(grouping.children[0] if grouping.kind == "Alias" else grouping)
