"""Parses a SQL statement: first the clauses that Spark's grammar lacks, then the remaining text with Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.spark_bridge.sql.analysis import Statement
from flykka.spark_bridge.sql.as_of_clause import AsOfClause, without_as_of
from flykka.spark_bridge.sql.commands import CreateTable, Explain, Insert, command
from flykka.spark_bridge.sql.conflict_clause import ConflictClause, without_conflict_clause
from flykka.spark_bridge.sql.plan_node import Position
from flykka.spark_bridge.sql.script import ScriptStatement
from flykka.spark_bridge.sql.watermark_clause import without_watermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka.spark_bridge.sql.commands import Command


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedStatement:
    """A statement as written, the statement as Spark has parsed it, and its command, which is None for a query."""

    source: ScriptStatement
    parsed: Statement
    command: Command | None
    as_of: tuple[AsOfClause, ...] = ()

    @property
    def is_query(self) -> bool:
        return self.command is None and self.parsed.is_query(self.parsed.plan)

    @property
    def position(self) -> Position:
        return self.source.position


def parse(session: SparkSession, source: ScriptStatement) -> ParsedStatement:
    """Parse a statement that may use all tables, views and functions of the session. Raises `SqlTextError` if it cannot
    be parsed, or has unsupported clauses.
    """
    text, clause = without_watermark(source.text)
    text, as_of = without_as_of(text)
    text, conflict = without_conflict_clause(text)
    parsed = Statement(session, text)
    parsed_command = _with_conflict(command(parsed), conflict)
    if isinstance(parsed_command, CreateTable) and clause is not None:
        parsed_command = replace(parsed_command, watermark=clause.watermark(parsed))
    return ParsedStatement(source=source, parsed=parsed, command=parsed_command, as_of=as_of)


def _with_conflict(parsed: Command | None, clause: ConflictClause | None) -> Command | None:
    match parsed:
        case Insert():
            return replace(parsed, conflict=clause)
        case Explain(command=Insert() as insert):
            return replace(parsed, command=replace(insert, conflict=clause))
    return parsed
