"""Rejects plans that Spark accepts but a stream cannot run, when the program is built, at the user's line."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import Column, DataFrame

from flykka.spark_bridge.program.pickled import pickled_function
from flykka.spark_bridge.program.prototype import PrototypeError
from flykka.spark_bridge.program.rich_function import RichFunction

if TYPE_CHECKING:
    from collections.abc import Sequence, Sized

    from flykka.spark_bridge.program.functions import JoinOn

Called = TypeVar("Called")

_JOINS = {
    "inner": "inner",
    "cross": "cross",
    "left": "left",
    "leftouter": "left",
    "semi": "left_semi",
    "leftsemi": "left_semi",
    "anti": "left_anti",
    "leftanti": "left_anti",
}
_KEEPS_UNMATCHED = frozenset({"right", "rightouter", "outer", "full", "fullouter"})


def checked_function(function: Called) -> Called:
    candidate: object = function
    if isinstance(candidate, type) and issubclass(candidate, RichFunction):
        raise PrototypeError(f"pass an object, {candidate.__name__}(...), not its class")
    if not callable(candidate):
        raise PrototypeError(f"pass a function, not a {type(candidate).__name__}")
    return function


def checked_sendable(function: Called) -> Called:
    pickled_function(checked_function(function))
    return function


def check_some(columns: Sized) -> None:
    if not columns:
        raise PrototypeError("at least one column is needed")


def check_there(prototype: DataFrame, columns: Sequence[Column | str], what: str) -> None:
    """Raise `PrototypeError` if a column to be dropped or renamed does not exist, which Spark would ignore.

    `what` is the intended action, such as "to drop".
    """
    before = prototype.columns
    for column in columns:
        if len(prototype.drop(column).columns) == len(before):
            name = repr(column) if isinstance(column, str) else str(column)
            raise PrototypeError(f"there is no column {name} {what}; the columns are {', '.join(before)}")


def checked_deterministic(prototype: DataFrame, condition: Column | str) -> Column | str:
    """Return `condition`. Raises `PrototypeError` if it may give different results when evaluated twice."""
    if not prototype.where(condition)._jdf.queryExecution().analyzed().deterministic():
        raise PrototypeError(
            "the condition is not deterministic, and would be evaluated separately for each of the two streams;"
            " compute it before, with with_column(...), and pass the name of that column"
        )
    return condition


def checked_static(static: object) -> DataFrame:
    if not isinstance(static, DataFrame):
        raise PrototypeError(f"a stream can be joined with a static DataFrame, not with a {type(static).__name__}")
    if static.isStreaming:
        raise PrototypeError("a stream can be joined with a static DataFrame, not with one of readStream")
    return static


def checked_how(how: str, on: JoinOn | None) -> str:
    """Return Spark's canonical name of the join type. Raises `PrototypeError` if the type does not exist, needs columns
    to join on, or would have another meaning batch by batch.
    """
    columns = on if isinstance(on, list) else [] if on is None else [on]
    if not all(isinstance(each, str | Column) for each in columns):
        raise PrototypeError(f"on=... takes column names or conditions, not {on!r}")
    kind = how.lower().replace("_", "")
    if kind in _KEEPS_UNMATCHED:
        raise PrototypeError(
            f"a {how!r} join would emit static rows without a match once per batch, although a later batch may match"
            f" them; supported kinds: {_kinds()}"
        )
    if kind not in _JOINS:
        raise PrototypeError(f"unknown join kind {how!r}; known: {_kinds()}")
    if not columns and kind != "cross":
        raise PrototypeError(
            "the join needs on=...: column names that both sides have, or a condition; how='cross' joins"
            " each row with every static one"
        )
    return _JOINS[kind]


def check_union(first: DataFrame, other: DataFrame) -> None:
    ours = [(field.name, field.dataType.simpleString()) for field in first.schema]
    theirs = [(field.name, field.dataType.simpleString()) for field in other.schema]
    for place, (one, two) in enumerate(zip(ours, theirs, strict=False), start=1):
        if one != two:
            raise PrototypeError(
                f"column {place} is {' '.join(one)} in the first stream and {' '.join(two)} in this one"
            )
    if len(ours) != len(theirs):
        longer, where = (ours, "this one") if len(ours) > len(theirs) else (theirs, "the first stream")
        missing = " ".join(longer[min(len(ours), len(theirs))])
        raise PrototypeError(f"{where} has no column {missing}")


def _kinds() -> str:
    return ", ".join(dict.fromkeys(_JOINS.values()))
