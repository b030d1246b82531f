"""Relations: the rows of a plan node, as a stream and the nodes that are still to be applied to it.

Stateless nodes are collected until a stateful operator, or the end of the query, needs their rows; then they become one
operator. The relation records through all nodes which attribute is the event time, a window, or an upsert key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.actors.machines.state.schema_evolution import ddl_name
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.stream_type import APPEND_ONLY
from flykka.spark_bridge.functions.event_time import OF_WINDOWS, WINDOW_END
from flykka.spark_bridge.program.functions import only_key
from flykka.spark_bridge.sql.plan_columns import PlanColumns, window_end
from flykka.spark_bridge.sql.plan_node import COMPUTED
from flykka.spark_bridge.sql.plan_segment import PlanSegment

if TYPE_CHECKING:
    from flykka.api.streams.keyed_stream import KeyedStream
    from flykka.api.streams.stream_type import Changelog
    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.functions.windowing.time_windows import TumblingEventTimeWindows
    from flykka.spark_bridge.program.prototype import Column
    from flykka.spark_bridge.sql.plan_node import Attribute, Expression, PlanNode


_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class IsEventTime:
    """The attribute is the event time of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsWindow:
    """The attribute is the window of a result row.

    All windows have size `size_ms`. `panes` are windows over the results' event time, each with the results of one
    window. Both are None for session windows.
    """

    panes: TumblingEventTimeWindows | None
    size_ms: int | None

    def part(self, field: str) -> Role | None:
        if field == "end":
            return IsEventTime()
        return None if self.size_ms is None else IsWindowStart(size_ms=self.size_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsWindowStart:
    """The attribute is the window start of a result row: `size_ms` before the window end."""

    size_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsKey:
    """The attribute is an upsert key; `name` is the key's column in the stream."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNumber:
    """The attribute is the row number of a first-rows operator, at most `limit`.

    If `limit` is above 1, the row number is a key of the stream, in the column `name`.
    """

    limit: int
    name: str


Role = IsEventTime | IsWindow | IsWindowStart | IsKey | IsNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A stream whose first columns are attributes of the plan, with the column names `called`."""

    stream: DataStream
    output: tuple[Attribute, ...]
    called: tuple[str, ...]
    roles: Mapping[int, Role]

    @property
    def names(self) -> Mapping[int, str]:
        return {attribute.id: name for attribute, name in zip(self.output, self.called, strict=True)}

    @property
    def columns(self) -> PlanColumns:
        return PlanColumns(self.stream.flow.type.prototype.sparkSession, self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """The rows of a plan node: a stream, and the nodes `above` that are still to be applied.

    `attributes` are the plan's attributes for the stream's first columns. `tables` are the common table expressions
    without a stream that the nodes read. `left_out` are ids of join columns that no node reads.
    """

    stream: DataStream
    attributes: tuple[Expression, ...]
    output: tuple[Attribute, ...]
    roles: Mapping[int, Role]
    left_out: frozenset[int] = frozenset()
    above: tuple[tuple[PlanNode, int], ...] = ()
    tables: tuple[PlanNode, ...] = ()

    @property
    def is_changing(self) -> bool:
        return self.stream.changelog != APPEND_ONLY

    def then(self, node: PlanNode, place: int = 0, tables: tuple[PlanNode, ...] = ()) -> Relation:
        """Return the relation with a stateless node added, which reads these rows as its child number `place`.

        `tables` are the common table expressions that the node may read.
        """
        return replace(
            self,
            above=(*self.above, (node, place)),
            output=tuple(each for each in node.output if each.id not in self.left_out),
            roles=_roles_after(node, self.roles),
            tables=tables or self.tables,
        )

    def settled(
        self, names: Iterable[str] | None = None, *, is_result: bool = False, carries_keys: bool = False
    ) -> Rows:
        """Apply the collected nodes as one operator, and return its rows.

        `names` are the column names, by default those of the plan. The window end is added as event-time column, except
        for the query's result. Keys that are not columns (with `carries_keys`) and the row kind come last.
        """
        kind, weight = self.stream.changelog.row_kind, self.stream.changelog.weight
        kinds = tuple(each for each in (kind, weight) if each is not None)
        carried = (*(self._lost_keys if carries_keys and weight is None else ()), *kinds)
        called = tuple(names) if names is not None else distinct((each.name for each in self.output), taken=carried)
        rows = Rows(stream=self.stream, output=self.output, called=called, roles=self.roles)
        ids = rows.names
        found = tuple(self.stream.columns)
        if not self.above and found[: len(called)] == called and (found == (*called, *carried) or not is_result):
            return rows
        end = None if is_result or WINDOW_END in called else self._end_of_window(ids)
        segment = PlanSegment(
            attributes=self.attributes,
            nodes=self.above,
            tables=self.tables,
            names=None if called == tuple(each.name for each in self.output) else called,
            added={} if end is None else {WINDOW_END: end},
            carried=carried,
        )
        keys = self._keys(ids, carried)
        renamed = {**self._times(ids, has_end=end is not None), **keys}
        stream = self.stream._transformed(self._label(called), lambda _: segment, renamed=renamed)
        return replace(rows, stream=stream, roles={column: _renamed(role, keys) for column, role in self.roles.items()})

    def _end_of_window(self, names: Mapping[int, str]) -> Column | None:
        """Return an expression for the window end, if it is the event time but not a column; else None."""
        if self.stream.flow.type.event_time != OF_WINDOWS:
            return None
        if any(isinstance(role, IsEventTime) for role in self.roles.values()):
            return None
        for column, role in self.roles.items():
            if isinstance(role, IsWindow | IsWindowStart):
                return window_end(names[column], None if isinstance(role, IsWindow) else role.size_ms)
        return None

    def _times(self, names: Mapping[int, str], *, has_end: bool) -> dict[str, str]:
        """Map the event-time column to its new name, or to an empty name if it is dropped."""
        event_time = self.stream.flow.type.event_time
        if event_time is None:
            return {}
        gone = event_time.column if has_end else ""
        times = (names[column] for column, role in self.roles.items() if isinstance(role, IsEventTime))
        return {event_time.column: next(times, gone)}

    @property
    def _lost_keys(self) -> tuple[str, ...]:
        found = {role.name for role in self.roles.values() if isinstance(role, IsKey | IsNumber)}
        return tuple(key for key in self.stream.changelog.keys or () if key not in found)

    def _keys(self, names: Mapping[int, str], carried: tuple[str, ...]) -> dict[str, str]:
        """Map the key columns of upserts to their new names, or to empty names if they are dropped."""
        # If several columns contain the same key, the first column is used.
        roles = reversed(list(self.roles.items()))
        found = {role.name: names[column] for column, role in roles if isinstance(role, IsKey | IsNumber)}
        lost = {key: key if key in carried else "" for key in self._lost_keys}
        return {**found, **lost}

    def _label(self, names: tuple[str, ...]) -> str:
        kinds = {"Filter": "where", "Generate": "generate", "Join": "join", "Expand": "expand"}
        steps = [kinds[node.kind] for node, _ in self.above if node.kind in kinds]
        return ", ".join([*steps, label("select", names)])


def _renamed(role: Role, keys: Mapping[str, str]) -> Role:
    return replace(role, name=keys[role.name]) if isinstance(role, IsKey | IsNumber) and role.name in keys else role


def keyed_by(stream: DataStream, keys: Sequence[str]) -> KeyedStream:
    return stream.key_by(*map(ddl_name, keys)) if keys else stream.key_by(only_key())


def with_changelog(stream: DataStream, changelog: Changelog, event_time: EventTime | None = None) -> DataStream:
    """Return the stream with another changelog and event time, which the DataStream API cannot derive."""
    return DataStream(stream.flow.typed(changelog, event_time))


def label(verb: str, listed: Iterable[str]) -> str:
    text = ", ".join(listed)
    return f"{verb}({text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'})"


def distinct(names: Iterable[str], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Return unique names, with numbers appended to repeated names; case is ignored, as in Spark."""
    seen = {name.lower() for name in taken}
    made = []
    for name in names:
        number, free = 1, name
        while free.lower() in seen:
            number += 1
            free = f"{name}_{number}"
        seen.add(free.lower())
        made.append(free)
    return tuple(made)


def _roles_after(node: PlanNode, roles: Mapping[int, Role]) -> dict[int, Role]:
    found = dict(roles)
    if node.kind == "Project":
        for each in node.expressions:
            role = _role_of(each, roles)
            if role is not None:
                found[each.attribute.id] = role
    kept = {attribute.id for attribute in node.output}
    return {column: role for column, role in found.items() if column in kept}


def _role_of(expression: Expression, roles: Mapping[int, Role]) -> Role | None:
    if expression.column_id != COMPUTED:
        return roles.get(expression.column_id)
    value = expression.children[0]
    if (stored := value.stored_column_id) != COMPUTED:
        role = roles.get(stored)
        return role if isinstance(role, IsKey | IsNumber) else None
    window = roles.get(value.children[0].column_id) if value.kind == "GetStructField" else None
    return window.part(value.field) if isinstance(window, IsWindow) else None


def relation_of(rows: Rows, node: PlanNode) -> Relation:
    """Return the relation of a node from rows that have only some of the node's columns."""
    expressions = {each.attribute.id: each for each in node.part("output")}
    read = frozenset(each.id for each in rows.output)
    return Relation(
        stream=rows.stream,
        attributes=tuple(expressions[each.id] for each in rows.output),
        output=rows.output,
        roles=rows.roles,
        left_out=frozenset(each.id for each in node.output) - read,
    )


def leaf(rows: Rows, node: PlanNode) -> Relation:
    """Return the relation of a node that has the columns of `rows`, in the same order, under the node's ids."""
    pairs = zip(rows.output, node.output, strict=True)
    return Relation(
        stream=rows.stream,
        attributes=node.part("output"),
        output=node.output,
        roles={new.id: rows.roles[old.id] for old, new in pairs if old.id in rows.roles},
    )
