"""Results of queries for a table: as upserts by its primary key, with a rule for several rows of one key, or as changes
of whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.stream_type import APPEND_ONLY, Changelog
from flykka.api.table.refusals import RefusedError
from flykka.api.table.relation import Rows, distinct, label
from flykka.api.table.weighted import changes, operator_of_index, upserts, weighted, with_own_names, with_unique
from flykka.spark_bridge.operators.upsert_materialiser import UpsertMaterialiserCode, upsert_materialiser_code
from flykka.spark_bridge.rows.row_kind import ROW_KIND
from flykka.spark_bridge.sql.plan_columns import named
from flykka.spark_bridge.worker.upsert_rules import ConflictRule, UpsertRules

if TYPE_CHECKING:
    from flykka.api.table.relation import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertTable:
    """A table that has one row for each value of its `keys`.

    `rule` is the rule of ON CONFLICT, None without the clause. Rows are compared by the columns of `sequence` first. An
    `unordered` sink cannot tell which of several changes of a key came last.
    """

    name: str
    keys: tuple[str, ...]
    sequence: tuple[str, ...]
    rule: ConflictRule | None
    unordered: bool

    def stream(self, relation: Relation) -> DataStream:
        """Return upserts by the table's keys; appended rows are unchanged unless a rule applies to them.

        Without a proof that there is one row for each key, an operator keeps the rows, and chooses a row at each
        barrier. Raises `RefusedError` if a key is not among the columns.
        """
        rows = relation.settled(carries_keys=True)
        log, keys = rows.stream.changelog, self._columns(rows, self.keys)
        overwrites = self.rule is None or (self.rule is ConflictRule.DEDUPLICATE and not self.unordered)
        are_upserts = log.is_upserts and set(log.keys or ()) == set(keys) and not self.unordered
        if are_upserts or (log == APPEND_ONLY and overwrites):
            return relation.settled(is_result=True).stream
        rows = with_own_names(weighted(rows))
        unique = rows.stream.changelog.keys
        if unique is not None and set(unique) <= set(keys) and not self.unordered:
            # A row that gets another key leaves the old key in the same batch, and in the same subtask.
            return upserts(with_unique(rows, keys))
        return self._materialised(rows, keys)

    def _materialised(self, rows: Rows, keys: tuple[str, ...]) -> DataStream:
        (kind,) = distinct([ROW_KIND], taken=rows.called)
        rule = self.rule or ConflictRule.ERROR
        rules = UpsertRules(
            rule=rule,
            columns=rows.called,
            keys=keys,
            order=tuple(dict.fromkeys([*self._columns(rows, self.sequence), *rows.called])),
            row_kind=kind,
        )
        flow = rows.stream.flow.keyed(tuple(map(named, keys)))
        name = f"{label('upserts by', keys)} ON CONFLICT DO {rule}"
        return operator_of_index(
            flow,
            name,
            lambda: upsert_materialiser_code(flow.type.prototype, self.name, rules),
            Changelog(keys=keys, row_kind=kind),
        )

    def _columns(self, rows: Rows, names: tuple[str, ...]) -> tuple[str, ...]:
        columns = {name.lower(): name for name in rows.called}
        if missing := [name for name in names if name.lower() not in columns]:
            raise RefusedError(
                f"the table {self.name} has one row for each {', '.join(self.keys)}, but the query has no column"
                f" {missing[0]}: its columns are {', '.join(rows.called)}",
                None,
            )
        return tuple(columns[name.lower()] for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRowTable:
    """A table without a key, whose sink removes rows by all of their columns."""

    @staticmethod
    def stream(relation: Relation) -> DataStream:
        """Return the rows if rows are only added, else all added and removed rows."""
        rows = relation.settled(carries_keys=True)
        if rows.stream.changelog == APPEND_ONLY:
            return relation.settled(is_result=True).stream
        return changes(weighted(rows))


def is_materialised(stream: DataStream) -> bool:
    """Return True if rows have at most one change of each key between two barriers."""
    return any(isinstance(each.source.code, UpsertMaterialiserCode) for each in stream.flow.inputs)
