"""Commands that Spark has parsed, as values in which no name has been resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

from flykka.spark_bridge.program.expressions import elements
from flykka.spark_bridge.sql.plan_node import Expression, PlanNode, Position, SqlTextError
from flykka.spark_bridge.sql.tokens import position_at, tokens

if TYPE_CHECKING:
    from flykka.spark_bridge.sql.analysis import Statement
    from flykka.spark_bridge.sql.conflict_clause import ConflictClause
    from flykka.spark_bridge.sql.watermark_clause import TableWatermark

_TEMPORARY = "LocalTempView"
_TABLES = ("CreateTable", "ReplaceTable")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """CREATE TEMPORARY VIEW name (columns) AS query; `columns` are empty if the view has the columns of the query."""

    name: str
    columns: tuple[str, ...]
    query: PlanNode
    replaces: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """CREATE TABLE. `columns` is None if the table has the columns of existing data. Option values are texts.

    `positions` are the positions of options, by name, and of clauses, by keywords.
    """

    name: str
    columns: StructType | None
    connector: str
    connector_position: Position | None
    options: dict[str, str]
    positions: dict[str, Position]
    partition_by: tuple[str, ...]
    primary_key: tuple[str, ...]
    comment: str
    if_not_exists: bool
    replaces: bool
    watermark: TableWatermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """INSERT INTO table query; `columns` and `conflict` are set if the statement has them."""

    table: str
    position: Position | None
    columns: tuple[str, ...]
    by_name: bool
    query: PlanNode
    conflict: ConflictClause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN of a `statement`, with the statement's command, which is None for a query."""

    statement: PlanNode
    command: Command | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    views: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    name: str
    position: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    name: str
    position: Position | None
    is_view: bool
    if_exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFunction:
    """CREATE or DROP TEMPORARY FUNCTION: the session executes it."""


Command = CreateView | CreateTable | Insert | Explain | Show | Describe | Drop | ChangeFunction


def command(statement: Statement) -> Command | None:
    """Return the command of a statement; None if it is unsupported. Raises `SqlTextError` for unsupported clauses."""
    result = _command_of(statement.plan)
    return _create_table(statement) if result is None and statement.plan.kind in _TABLES else result


def _command_of(plan: PlanNode) -> Command | None:
    make = _COMMANDS.get(plan.kind)
    return None if make is None else make(plan, plan.java)


def _create_view(plan: PlanNode, java: Any) -> CreateView | None:
    if java.viewType().toString() != _TEMPORARY:
        return None
    columns = tuple(str(each._1()) for each in elements(java.userSpecifiedColumns()))
    name, query = str(java.name().table()), PlanNode(java.plan())
    return CreateView(name=name, columns=columns, query=query, replaces=bool(java.replace()))


def _insert(plan: PlanNode, java: Any) -> Insert:
    if java.overwrite() or not java.partitionSpec().isEmpty() or java.ifPartitionNotExists():
        raise SqlTextError(
            "INSERT OVERWRITE and PARTITION (...) cannot run on a stream, whose rows come one after the other:"
            " INSERT INTO adds them; PARTITIONED BY of the table defines their folders",
            plan.position,
        )
    table = PlanNode(java.table())
    return Insert(
        table=_name(table),
        position=table.position,
        columns=tuple(str(each) for each in elements(java.userSpecifiedCols())),
        by_name=bool(java.byName()),
        query=PlanNode(java.query()),
    )


def _explain(plan: PlanNode, java: Any) -> Explain:
    if java.mode().name() != "simple":
        raise SqlTextError("EXPLAIN of streams has no modes: EXPLAIN SELECT ..., EXPLAIN INSERT ...", plan.position)
    statement = PlanNode(java.logicalPlan())
    return Explain(statement=statement, command=_command_of(statement))


def _described(plan: PlanNode, java: Any) -> Describe:
    relation = PlanNode(java.relation())
    return Describe(name=_name(relation), position=relation.position)


def _dropped(plan: PlanNode, java: Any) -> Drop:
    return Drop(
        name=_one_part(java.child().nameParts(), plan.children[0].position),
        position=plan.children[0].position or plan.position,
        is_view=plan.kind == "DropView",
        if_exists=bool(java.ifExists()),
    )


_COMMANDS: dict[str, Callable[[PlanNode, Any], Command | None]] = {
    "CreateViewCommand": _create_view,
    "InsertIntoStatement": _insert,
    "ExplainCommand": _explain,
    "ShowTables": lambda *_: Show(views=False),
    "ShowViews": lambda *_: Show(views=True),
    "DescribeRelation": _described,
    "DropTable": _dropped,
    "DropView": _dropped,
    # Functions that are not temporary have other plan nodes.
    "CreateFunctionCommand": lambda *_: ChangeFunction(),
    "CreateSQLFunctionCommand": lambda *_: ChangeFunction(),
    "DropFunctionCommand": lambda *_: ChangeFunction(),
}


def _create_table(statement: Statement) -> CreateTable:
    replaces = statement.plan.kind == "ReplaceTable"
    plan, java, spec = statement.plan, statement.plan.java, statement.plan.java.tableSpec()
    if not spec.provider().isDefined():
        raise SqlTextError(
            "a table of streams needs a connector: CREATE TABLE name (columns) USING connector OPTIONS (...)",
            plan.position,
        )
    if not spec.properties().isEmpty():
        raise SqlTextError("TBLPROPERTIES have no effect here: use OPTIONS (...)", plan.position)
    options = {}
    for pair in elements(spec.optionExpression().options()):
        key, value = str(pair._1()), Expression(pair._2())
        if not value.is_constant:
            raise SqlTextError(f"the option {key!r} is no constant", value.position or plan.position)
        options[key] = str(value.value)
    if spec.location().isDefined():
        # The parser takes the option `path` for LOCATION.
        options["path"] = str(spec.location().get())
    return CreateTable(
        name=_one_part(java.name().nameParts(), plan.position),
        columns=_columns(plan),
        connector=str(spec.provider().get()).lower(),
        connector_position=_behind(statement.text, "USING"),
        options=options,
        positions=_positions(statement.text),
        partition_by=_partition_columns(plan),
        primary_key=_primary_key(plan),
        comment=str(spec.comment().get()) if spec.comment().isDefined() else "",
        if_not_exists=not replaces and bool(java.ignoreIfExists()),
        replaces=replaces,
    )


def _columns(plan: PlanNode) -> StructType | None:
    fields = []
    for column in elements(plan.java.columns()):
        name = str(column.name())
        for what, clause in (
            ("GENERATED", column.generationExpression()),
            ("DEFAULT", column.defaultValue()),
            ("IDENTITY", column.identityColumnSpec()),
        ):
            if clause.isDefined():
                raise SqlTextError(
                    f"the column {name} is {what}: a table of streams only has columns that its connector reads and"
                    " writes; CREATE TEMPORARY VIEW name AS SELECT ... computes columns",
                    plan.position,
                )
        fields.append(StructField(name, _parse_datatype_json_string(column.dataType().json()), bool(column.nullable())))
    return StructType(fields) if fields else None


def _partition_columns(plan: PlanNode) -> tuple[str, ...]:
    names = []
    for transform in elements(plan.java.partitioning()):
        if str(transform.name()) != "identity":
            raise SqlTextError(f"PARTITIONED BY takes columns, not {transform.describe()}", plan.position)
        names.append(str(transform.describe()).strip("`"))
    return tuple(names)


def _primary_key(plan: PlanNode) -> tuple[str, ...]:
    for constraint in elements(plan.java.tableSpec().constraints()):
        if str(constraint.getClass().getSimpleName()) != "PrimaryKeyConstraint":
            raise SqlTextError(
                "constraints are not checked: a table of streams only has PRIMARY KEY (...) NOT ENFORCED, by which"
                " rows replace others",
                plan.position,
            )
        return tuple(str(each) for each in elements(constraint.columns()))
    return ()


def _name(relation: PlanNode) -> str:
    return _one_part(relation.java.multipartIdentifier(), relation.position)


def _one_part(parts: Any, position: Position | None) -> str:
    name = [str(each) for each in elements(parts)]
    if len(name) > 1:
        raise SqlTextError(f"tables of streams have names of one part, not {'.'.join(name)}", position)
    return name[0]


def _behind(text: str, word: str) -> Position | None:
    all_tokens = tokens(text)
    places = (behind.start for token, behind in pairwise(all_tokens) if token.matches(word))
    return next((position_at(text, place) for place in places), None)


def _positions(text: str) -> dict[str, Position]:
    """Return the positions of clauses and of keys in OPTIONS (...): a key follows the parenthesis or a comma."""
    all_tokens = list(tokens(text))
    start = next((number for number, token in enumerate(all_tokens) if token.matches("OPTIONS")), len(all_tokens))
    positions = {
        f"{token.raw} {behind.raw}".upper(): position_at(text, token.start)
        for token, behind in pairwise(all_tokens)
        if token.matches("PRIMARY", "PARTITIONED") and behind.matches("KEY", "BY")
    }
    begins = False
    for number, token in enumerate(all_tokens[start:], start):
        if begins and token.kind != "symbol":
            key, behind = token.value, number + 1
            while behind + 1 < len(all_tokens) and all_tokens[behind].matches(".") and token.kind != "text":
                key, behind = f"{key}.{all_tokens[behind + 1].value}", behind + 2
            positions[key] = position_at(text, token.start)
        begins = token.matches("(", ",")
    return positions
