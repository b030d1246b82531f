"""Changing rows with weights: conversions from and to upserts, and operators that follow all changes of their input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING

from flykka.api.streams import operators
from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.program import try_on_prototype
from flykka.api.streams.stream_type import Changelog, StreamType
from flykka.api.streams.transformation import format_columns
from flykka.api.table.changing_rows import normalized, with_weight_column
from flykka.api.table.relation import IsKey, Relation, Role, Rows, distinct, label, leaf, relation_of, with_changelog
from flykka.spark_bridge.operators.changes import IndexCode, JoinedBySpark, Recomputed, changes_code, upserts_of_changes
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.program.functions import only_key
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.sql.plan_columns import named, null_of
from flykka.spark_bridge.sql.plan_node import COMPUTED
from flykka.spark_bridge.sql.plan_segment import JoinSegment, PlanSegment
from flykka.spark_bridge.sql.row_kinds import WithKinds, constant
from flykka.spark_bridge.worker.weighted_results import JoinChanges, JoinKind, RowsBeforeAndAfter
from flykka.spark_bridge.worker.weighted_rows import WEIGHT

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow
    from flykka.api.streams.keyed_stream import KeyedStream
    from flykka.api.table.join_condition import JoinCondition
    from flykka.spark_bridge.program.prototype import Column, DataFrame
    from flykka.spark_bridge.sql.plan_node import Attribute, Expression, PlanNode

WEIGHTED = Changelog(weight=WEIGHT)

StreamOf = Callable[["DataFrame"], DataStream]
"""Makes a stream of the rows of a table."""


def weighted(rows: Rows) -> Rows:
    """Return the rows with a weight column; upserts are first normalized, as by Flink's ChangelogNormalize."""
    stream = rows.stream
    if stream.changelog.weight is not None:
        return rows if set(stream.changelog.keys or ()) <= set(rows.called) else with_unique(rows, None)
    if stream.changelog.keys is not None:
        stream = normalized(stream)
    chosen = with_weight_column(stream, rows.called, stream.changelog.row_kind)
    return with_unique(replace(rows, stream=chosen), stream.changelog.keys)


def with_unique(rows: Rows, keys: Sequence[str] | None) -> Rows:
    """Return weighted rows whose `keys` columns are known to be unique.

    If `keys` is None, or contains a name that is not a column, no columns are known to be unique.
    """
    keys = None if keys is None or not set(keys) <= set(rows.called) else tuple(dict.fromkeys(keys))
    roles: dict[int, Role] = {
        each.id: IsKey(name=name) for each, name in zip(rows.output, rows.called, strict=True) if name in (keys or ())
    }
    return replace(rows, stream=with_changelog(rows.stream, replace(WEIGHTED, keys=keys)), roles=roles)


def with_own_names(rows: Rows) -> Rows:
    """Return weighted rows with the names of the query, some of which belonged to keys that it does not select."""
    called = distinct((each.name for each in rows.output), taken=[WEIGHT])
    if called == rows.called:
        return rows
    new = dict(zip(rows.called, called, strict=True))
    columns = (named(name).alias(new[name]) for name in rows.called)
    stream = rows.stream.select(*columns, named(WEIGHT)).name(label("select", called))
    keys = rows.stream.changelog.keys
    unique = None if keys is None or not set(keys) <= set(new) else [new[key] for key in keys]
    return with_unique(replace(rows, stream=stream, called=called), unique)


def upserts(rows: Rows) -> DataStream:
    keys = rows.stream.changelog.keys
    assert keys is not None, "the rows have no keys"
    (kind,) = distinct([ROW_KIND], taken=rows.called)
    newest = partial(upserts_of_changes, columns=rows.called, keys=keys, kind=kind)
    stream = rows.stream.transform(newest, per_batch=True).name(label("upserts by", keys or ("all",)))
    return with_changelog(stream, Changelog(keys=keys, row_kind=kind))


def with_weights(relation: Relation, node: PlanNode, *, is_unique: bool = True) -> Relation:
    """Return the rows of a node with weights; `is_unique` is False for a reader that may make several rows from one
    row.
    """
    rows = weighted(relation.settled(carries_keys=True))
    return relation_of(rows if is_unique else with_unique(rows, None), node)


def with_empty_row(stream: DataStream, stream_of: StreamOf, column: str, value: Column) -> DataStream:
    """Add a row that results do not count: `column` has this value, all other columns are null.

    So an aggregate without keys emits its result for an empty input before any rows arrive, as in a batch.
    """
    prototype = stream.flow.type.prototype
    values = (value if each.name == column else null_of(each.dataType) for each in prototype.schema)
    named_values = (each.alias(name) for each, name in zip(values, prototype.columns, strict=True))
    row = stream_of(prototype.sparkSession.range(1).select(*named_values)).name("no rows")
    return with_changelog(stream.union(row), stream.changelog)


def identity(rows: Rows, keys: Sequence[Expression] = ()) -> list[int] | None:
    """Return the ids of columns that identify weighted rows within `keys`; None if the rows are not unique."""
    unique = rows.stream.changelog.keys
    ids = dict(zip(rows.called, rows.names, strict=True))
    columns = [*(ids[key] for key in unique or ()), *(each.column_id for each in keys)]
    return None if unique is None or COMPUTED in columns else list(dict.fromkeys(columns))


def changes(rows: Rows) -> DataStream:
    """Convert weighted rows to changes: each row is repeated as often as its weight says, as `+I` or `-D`."""
    rows = with_own_names(rows)
    (kind,) = distinct([ROW_KIND], taken=rows.called)
    with_kinds = WithKinds(list(map(named, rows.called)), WEIGHT, kind)
    stream = rows.stream.transform(with_kinds).name("changes")
    return with_changelog(stream, Changelog(row_kind=kind))


def only_columns(rows: Rows, read: frozenset[int]) -> Rows:
    pairs = [(each, name) for each, name in zip(rows.output, rows.called, strict=True) if each.id in read]
    output, called = tuple(each for each, _ in pairs), tuple(name for _, name in pairs)
    if called == rows.called:
        return rows
    stream = rows.stream.select(*map(named, called), named(WEIGHT)).name(label("select", called))
    return with_unique(replace(rows, stream=stream, output=output, called=called), rows.stream.changelog.keys)


def recomputed(
    nodes: Sequence[PlanNode],
    rows: Rows,
    keys: Sequence[Column],
    name: str,
    unique: Iterable[int] | None,
    time_to_live_ms: int | None,
) -> Relation:
    """Return the results of `nodes`, given bottom-up, which Spark computes again for the keys whose rows changed.

    Rows with different keys must not have results in common. Without keys, all results are computed again. `unique` are
    the ids of the columns that identify a result; they include the keys.
    """
    bottom, top = nodes[0], nodes[-1]
    called = distinct((each.name for each in top.output), taken=[WEIGHT])
    segment = PlanSegment(
        attributes=_attributes(bottom.children[0], rows), nodes=tuple((each, 0) for each in nodes), names=called
    )
    function = RowsBeforeAndAfter(columns=rows.called, keeps_empty=top.kind == "Aggregate" and not keys)
    results = Recomputed(compute=segment, has_keys=not function.keeps_empty)
    does = "; ".join(f"{node.kind} {', '.join(each.sql for each in node.expressions)}" for node in nodes)
    stream = _operator(rows.stream, keys, name, does, function, results, time_to_live_ms)
    computed = Rows(stream=stream, output=top.output, called=called, roles={})
    return leaf(with_unique(computed, _names(computed, unique)), top)


def _names(rows: Rows, columns: Iterable[int] | None) -> tuple[str, ...] | None:
    names = [rows.names.get(each) for each in columns] if columns is not None else [None]
    return None if None in names else tuple(name for name in names if name is not None)


def joined(
    node: PlanNode,
    sides: Mapping[Side, Rows],
    condition: JoinCondition,
    read: frozenset[int],
    time_to_live_ms: int | None,
) -> Relation:
    """Return the join of changing rows; `read` are the ids of columns that the join or a node above needs.

    Rows with equal keys meet in one subtask. If the condition has other parts than keys, an inner join filters the
    pairs; other joins are computed again by Spark for the keys whose rows changed.
    """
    pruned = {side: only_columns(weighted(rows), read) for side, rows in sides.items()}
    return _WeightedJoin(node, pruned, condition, time_to_live_ms).relation()


_KINDS = {
    "INNER": JoinKind.INNER,
    "CROSS": JoinKind.INNER,
    "LEFT OUTER": JoinKind.LEFT,
    "RIGHT OUTER": JoinKind.RIGHT,
    "FULL OUTER": JoinKind.FULL,
    "LEFT SEMI": JoinKind.SEMI,
    "LEFT ANTI": JoinKind.ANTI,
}


_OF_BOTH = frozenset({JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL})


class _WeightedJoin:
    """A join of weighted rows: the rows of both sides are united into one keyed stream."""

    def __init__(
        self, node: PlanNode, sides: Mapping[Side, Rows], condition: JoinCondition, time_to_live_ms: int | None
    ) -> None:
        self._node = node
        self._sides = sides
        self._condition = condition
        self._time_to_live_ms = time_to_live_ms
        left, right = (sides[side] for side in Side)
        self._names = distinct([*left.called, *right.called], taken=[WEIGHT])
        self._called = {Side.LEFT: self._names[: len(left.called)], Side.RIGHT: self._names[len(left.called) :]}
        self._keys = distinct([f"key_{place}" for place in range(len(condition.keys))], taken=[*self._names, WEIGHT])
        (self._side,) = distinct(["side"], taken=[*self._names, *self._keys, WEIGHT])

    def relation(self) -> Relation:
        kind, rest = _KINDS.get(self._node.join_type), self._condition.rest
        if kind is None or (rest and kind is not JoinKind.INNER):
            return self._recomputed()
        join = JoinChanges(kind=kind, side=self._side, left=self._called[Side.LEFT], right=self._called[Side.RIGHT])
        stream = self._stream(f"{kind} join", join, _unchanged)
        rows = Rows(stream=stream, output=self._output[: len(join.emitted)], called=join.emitted, roles={})
        if rest:
            matching = stream.where(reduce(and_, map(rows.columns.column, rest)))
            rows = replace(rows, stream=matching.name(label("where", (each.sql for each in rest))))
        return self._relation(rows)

    def _recomputed(self) -> Relation:
        output = [each for each in self._node.output if each in self._output]
        if self._node.join_type == "EXISTENCE":
            output.append(self._node.output[-1])  # True if there is a match, for an EXISTS or IN inside an OR.
        called = distinct((each.name for each in output), taken=[WEIGHT])
        left, right = (
            _attributes(child, self._sides[side]) for child, side in zip(self._node.children, Side, strict=True)
        )
        join = JoinSegment(node=self._node, left=left, right=right, names=called)
        compute = JoinedBySpark(
            side=self._side, left=self._called[Side.LEFT], right=self._called[Side.RIGHT], join=join
        )
        function = RowsBeforeAndAfter(columns=(self._side, *self._names))
        text = f"{self._node.join_type} join ON {' AND '.join(each.sql for each in self._condition.rest)}"
        stream = self._stream(text, function, Recomputed(compute=compute, has_keys=True))
        return self._relation(Rows(stream=stream, output=tuple(output), called=called, roles={}))

    def _relation(self, rows: Rows) -> Relation:
        rows = with_unique(rows, _names(rows, self._unique))
        alike = {column: rows.roles[key] for column, key in self._alike.items() if key in rows.roles}
        return relation_of(replace(rows, roles={**alike, **rows.roles}), self._node)

    @property
    def _unique(self) -> list[int] | None:
        """The ids of the columns that identify a result, without columns that equal another of them; None if unknown.

        The join keys are included. So if a row's join key changes, and possibly its subtask, the old and the new result
        differ, and their changes may arrive in any order.
        """
        kind = _KINDS.get(self._node.join_type)
        sides = [Side.LEFT]
        if kind in _OF_BOTH and not (kind is not JoinKind.RIGHT and self._is_unique(Side.RIGHT)):
            sides.append(Side.RIGHT)
        alike = self._alike
        columns: list[int] = []
        for side in sides:
            rows, keys = self._sides[side], self._sides[side].stream.changelog.keys
            if keys is None or any(key.of(side).column_id == COMPUTED for key in self._condition.keys):
                return None
            ids = dict(zip(rows.called, rows.names, strict=True))
            columns += [*(ids[key] for key in keys), *(key.of(side).column_id for key in self._condition.keys)]
        return list(dict.fromkeys(alike.get(each, each) for each in columns))

    @property
    def _alike(self) -> Mapping[int, int]:
        """Columns of the right side that always equal a column of the left side, mapped to it."""
        if _KINDS.get(self._node.join_type) is not JoinKind.INNER:
            return {}
        return {key.right.column_id: key.left.column_id for key in self._condition.keys}

    def _is_unique(self, side: Side) -> bool:
        rows = self._sides[side]
        names = {rows.names.get(key.of(side).column_id) for key in self._condition.keys}
        keys = rows.stream.changelog.keys
        return self._node.join_type != "FULL OUTER" and keys is not None and set(keys) <= names

    @property
    def _output(self) -> tuple[Attribute, ...]:
        return (*self._sides[Side.LEFT].output, *self._sides[Side.RIGHT].output)

    def _stream(
        self, does: str, function: JoinChanges | RowsBeforeAndAfter, results: Callable[[DataFrame], DataFrame]
    ) -> DataStream:
        left, right = (self._one_side(side) for side in Side)
        both = with_changelog(left.union(right), WEIGHTED)
        pairs = (f"{key.left.display_name} = {key.right.display_name}" for key in self._condition.keys)
        keys, name = [named(key) for key in self._keys], label("join", pairs)
        return _operator(both, keys, name, does, function, results, self._time_to_live_ms)

    def _one_side(self, side: Side) -> DataStream:
        rows = self._sides[side]
        columns = rows.columns
        pairs = zip(self._condition.keys, self._keys, strict=True)
        made = [key.matched(columns.column(key.of(side))).alias(name) for key, name in pairs]
        made.append(constant(side is Side.RIGHT).alias(self._side))
        for each in Side:
            schema = self._sides[each].stream.flow.type.prototype.schema
            for name, called in zip(self._sides[each].called, self._called[each], strict=True):
                value = named(name) if each is side else null_of(schema[name].dataType)
                made.append(value.alias(called))
        return rows.stream.select(*made, named(WEIGHT)).name(f"{side} of join")


def _operator(
    stream: DataStream,
    keys: Sequence[Column],
    name: str,
    does: str,
    function: JoinChanges | RowsBeforeAndAfter,
    results: Callable[[DataFrame], DataFrame],
    time_to_live_ms: int | None,
) -> DataStream:
    """Add an operator of weighted rows; the text `does` identifies its function in the fingerprint.

    Without keys there is no time-to-live: each row would renew it for all others.
    """
    time_to_live_ms = time_to_live_ms if keys else None
    flow = stream.flow.keyed(tuple(keys) or (only_key(),))
    return operator_of_index(
        flow,
        name,
        lambda: changes_code(flow.type.prototype, flow.keys, does, function, results, time_to_live_ms),
        WEIGHTED,
    )


def operator_of_index(
    flow: Dataflow, name: str, code: Callable[[], tuple[DataFrame, IndexCode]], changelog: Changelog
) -> DataStream:
    """Add an operator that keeps an index of rows; `code` returns the prototype of its results, and its code."""
    prototype, made = try_on_prototype(name, code)
    emitted = flow.through(name, made, StreamType(prototype=prototype, event_time=None))
    return with_changelog(DataStream(emitted), changelog)


def aggregate(keyed: KeyedStream, columns: Sequence[Column], weight: str | None) -> DataStream:
    """Compute running aggregates of each key; with a column `weight`, as weighted rows."""
    name = f"aggregate({format_columns(*columns)})"
    return DataStream(operators.aggregate(keyed.flow, name, tuple(columns), weight))


def _attributes(node: PlanNode, rows: Rows) -> tuple[Expression, ...]:
    expressions = {each.attribute.id: each for each in node.part("output")}
    return tuple(expressions[each.id] for each in rows.output)


def _unchanged(rows: DataFrame) -> DataFrame:
    return rows
