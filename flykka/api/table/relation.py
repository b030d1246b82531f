"""Relations: the rows of a node of the plan, as a stream and the nodes that are still to be applied to it.

Nodes without memory are collected until an operator with memory, or the end of the query, needs their rows; then they
become one operator. What an attribute means to a stream is followed through them: whether it is the event time, a
window, or a key of upserts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.actors.machines.state.schema_evolution import ddl_name
from flykka.api.streams.data_stream import DataStream
from flykka.api.table.refusals import RefusedError
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
    from flykka.spark_bridge.sql.plan_node import Attribute, Expression, PlanNode, Position


_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class IsEventTime:
    """The attribute is the event time of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsWindow:
    """The attribute is the window that a row is the result of.

    Results that agree in it are together in one window of `panes` over their event time. All windows are of one size.
    Both are None where sessions are.
    """

    panes: TumblingEventTimeWindows | None
    size_ms: int | None

    def part(self, field: str) -> Role | None:
        """The meaning of its start or its end."""
        if field == "end":
            return IsEventTime()
        return None if self.size_ms is None else IsWindowStart(size_ms=self.size_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsWindowStart:
    """The attribute is the start of the window that a row is the result of: so much before its end."""

    size_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsKey:
    """The attribute is the key of upserts that the stream calls so."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNumber:
    """The attribute is the number of a row among the first ones, of which there are no more than `limit`.

    It is a key of the stream, called `name`, where there may be several.
    """

    limit: int
    name: str


Role = IsEventTime | IsWindow | IsWindowStart | IsKey | IsNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A stream whose first columns, which are `called` so, are attributes of the plan."""

    stream: DataStream
    output: tuple[Attribute, ...]
    called: tuple[str, ...]
    roles: Mapping[int, Role]

    @property
    def names(self) -> Mapping[int, str]:
        """The names of the attributes, by their ids."""
        return {attribute.id: name for attribute, name in zip(self.output, self.called, strict=True)}

    @property
    def columns(self) -> PlanColumns:
        """Makes Columns over the rows."""
        return PlanColumns(self.stream.flow.type.prototype.sparkSession, self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """The rows of a node: those of a stream, to which the nodes `above` it are applied.

    The first columns of the stream are the `attributes` of the plan. `tables` are the common tables without a stream
    that the nodes read. What no node reads of the columns of a join is `left_out`. The clause that makes the rows is at
    `position`.
    """

    stream: DataStream
    attributes: tuple[Expression, ...]
    output: tuple[Attribute, ...]
    roles: Mapping[int, Role]
    left_out: frozenset[int] = frozenset()
    above: tuple[tuple[PlanNode, int], ...] = ()
    position: Position | None = None
    tables: tuple[PlanNode, ...] = ()

    @property
    def is_upserts(self) -> bool:
        """True if its rows take the place of earlier ones."""
        return self.stream.changelog.keys is not None

    def check_append_only(self, clause: str, node: PlanNode) -> None:
        """Raise `RefusedError` where rows may change later, of which a clause would know nothing."""
        if self.is_upserts:
            raise RefusedError(
                f"{clause} of rows that are {self.stream.changelog} cannot run: a row that changes would count once"
                " more for each change. Windows, GROUP BY window(...), give each result once",
                node.position,
            )

    def then(self, node: PlanNode, place: int = 0, tables: tuple[PlanNode, ...] = ()) -> Relation:
        """The rows of a node without memory that reads these as its child at a place, and perhaps common tables."""
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
        """Apply the nodes as one operator, and call the columns by their names in the plan, or others.

        The end of a window goes with it, as the event time of its result, but not into the result of the query. The
        kinds of rows stand behind the columns, and where they are carried before them the keys that are no columns.

        Raises:
            RefusedError: the rows are upserts, and have lost a key.
        """
        kind = self.stream.changelog.row_kind
        carried = (*(self._lost_keys if carries_keys else ()), *(() if kind is None else (kind,)))
        called = tuple(names) if names is not None else distinct((each.name for each in self.output), taken=carried)
        rows = Rows(stream=self.stream, output=self.output, called=called, roles=self.roles)
        ids = rows.names
        found = tuple(self.stream.columns)
        if not self.above and found[: len(called)] == called and (found == (*called, *carried) or not is_result):
            return rows
        end = None if is_result or WINDOW_END in called else self._end_of_window(ids)
        segment = PlanSegment(
            attributes=tuple((each.attribute.name, each.java.exprId()) for each in self.attributes),
            nodes=self.above,
            tables=self.tables,
            names=None if called == tuple(each.name for each in self.output) else called,
            added={} if end is None else {WINDOW_END: end},
            carried=carried,
        )
        keys = self._keys(ids, carried)
        renamed = {**self._times(ids, has_end=end is not None), **keys}
        stream = self.stream._then(self._label(called), lambda _: segment, renamed=renamed)
        return replace(rows, stream=stream, roles={column: _renamed(role, keys) for column, role in self.roles.items()})

    def _end_of_window(self, names: Mapping[int, str]) -> Column | None:
        """The end of windows, computed of a column; None where it is not the event time, or a column itself."""
        if self.stream.flow.type.event_time != OF_WINDOWS:
            return None
        if any(isinstance(role, IsEventTime) for role in self.roles.values()):
            return None
        for column, role in self.roles.items():
            if isinstance(role, IsWindow | IsWindowStart):
                return window_end(names[column], None if isinstance(role, IsWindow) else role.size_ms)
        return None

    def _times(self, names: Mapping[int, str], *, has_end: bool) -> dict[str, str]:
        """The new name of the column of the event time; an empty one where it is gone."""
        event_time = self.stream.flow.type.event_time
        if event_time is None:
            return {}
        gone = event_time.column if has_end else ""
        times = (names[column] for column, role in self.roles.items() if isinstance(role, IsEventTime))
        return {event_time.column: next(times, gone)}

    @property
    def _lost_keys(self) -> tuple[str, ...]:
        """The keys of upserts that are no columns of the relation."""
        found = {role.name for role in self.roles.values() if isinstance(role, IsKey | IsNumber)}
        return tuple(key for key in self.stream.changelog.keys or () if key not in found)

    def _keys(self, names: Mapping[int, str], carried: tuple[str, ...]) -> dict[str, str]:
        """The new names of the keys of upserts."""
        keys = self.stream.changelog.keys or ()
        # Of several columns that are the key, it is the first.
        roles = reversed(list(self.roles.items()))
        found = {role.name: names[column] for column, role in roles if isinstance(role, IsKey | IsNumber)}
        lost = [self._written(key) for key in self._lost_keys if key not in carried]
        if lost:
            raise RefusedError(
                f"the rows are upserts by {', '.join(map(self._written, keys))}, and the SELECT leaves"
                f" out {', '.join(lost)}: nothing would tell which of them still holds; add {' and '.join(lost)} to the"
                " SELECT",
                self.position,
            )
        return {**found, **{key: key for key in self._lost_keys}}

    def _written(self, key: str) -> str:
        """A key as the query calls it: with its table, where several have such a column."""
        place = self.stream.columns.index(key)
        if place >= len(self.attributes):
            return key
        column = self.attributes[place]
        names = [each.attribute.name.lower() for each in self.attributes]
        return column.qualified if names.count(names[place]) > 1 else column.attribute.name

    def _label(self, names: tuple[str, ...]) -> str:
        kinds = {"Filter": "where", "Generate": "generate", "Join": "join", "Expand": "expand"}
        steps = [kinds[node.kind] for node, _ in self.above if node.kind in kinds]
        return ", ".join([*steps, label("select", names)])


def _renamed(role: Role, keys: Mapping[str, str]) -> Role:
    return replace(role, name=keys[role.name]) if isinstance(role, IsKey | IsNumber) and role.name in keys else role


def keyed_by(stream: DataStream, keys: Sequence[str]) -> KeyedStream:
    """The stream by these columns; without any all its rows are of one key."""
    return stream.key_by(*map(ddl_name, keys)) if keys else stream.key_by(only_key())


def with_changelog(stream: DataStream, changelog: Changelog, event_time: EventTime | None = None) -> DataStream:
    """The same rows, of which SQL knows what no operator states: their changelog and their event time."""
    return DataStream(stream.flow.typed(changelog, event_time))


def label(verb: str, listed: Iterable[str]) -> str:
    """The name of an operator; what is long is cut short."""
    text = ", ".join(listed)
    return f"{verb}({text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'})"


def distinct(names: Iterable[str], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """The names, with numbers behind those that were there before. Case does not tell names apart, as in Spark."""
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


def leaf(rows: Rows, node: PlanNode) -> Relation:
    """The rows as those of a node: its columns are theirs, in their order, under its own ids."""
    pairs = zip(rows.output, node.output, strict=True)
    return Relation(
        stream=rows.stream,
        attributes=node.part("output"),
        output=node.output,
        roles={new.id: rows.roles[old.id] for old, new in pairs if old.id in rows.roles},
        position=node.position,
    )
