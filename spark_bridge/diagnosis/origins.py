"""Finds the operator of a chain that caused an error of Spark, by the expression, function or file in the error.

Spark computes all operators of a chain as one plan, so the location of an error does not identify its operator. But
Spark records the position of an expression in the query (its query context), the name of a Python function, and the
file of rows. The plan of each operator's result contains all of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from flykka.spark_bridge.diagnosis.unreadable import plain_path, throwables
from flykka.spark_bridge.diagnosis.user_lines import frames_of_user

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.rows.materialise import Slices


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """The result of an operator, and the rows from which it was computed, slice by slice. Sources have no such rows.

    With `columns`, the operator leaves rows unchanged and only computes these columns.
    """

    before: Slices
    after: Slices
    columns: Sequence[Column | str] = ()

    def marks(self) -> Counter[str]:
        """Return the operator's query contexts and Python functions, which are the same in the plans of all slices."""
        rows = self.after[0].select(*self.columns) if self.columns else self.after[0]
        return _marks_of(rows) - (_marks_of(self.before[0]) if self.before else Counter())

    def files(self) -> set[str]:
        before, after = self.before[:1], self.after[:1] if self.before else self.after
        files = _files_of(after) - _files_of(before)
        return {plain_path(unquote(file)) for file in files}


class Origins:
    """The latest result of each operator of an attempt, to explain a failure.

    Two stages may use it at once, because the expressions of an operator are the same in all stages.
    """

    def __init__(self) -> None:
        self._derivations: dict[str, Derivation] = {}
        self._lock = Lock()

    def record(self, uid: str, derivation: Derivation) -> None:
        with self._lock:
            self._derivations[uid] = derivation

    def operators_named_by(self, raised: BaseException) -> list[str]:
        """Return the uids of the operators that may have raised this, in chain order; empty if unknown.

        Returns several operators if all of them use the function or expression that the error names.
        """
        names = _named(raised)
        return [uid for uid, derivation in self._last() if names & derivation.marks().keys()] if names else []

    def readers_of(self, path: str) -> list[str]:
        return [uid for uid, derivation in self._last() if path in derivation.files()]

    def _last(self) -> list[tuple[str, Derivation]]:
        with self._lock:
            return list(self._derivations.items())


def _named(raised: BaseException) -> set[str]:
    names = {f"function {function}" for function in _functions_in(raised)}
    for throwable in throwables(raised):
        names |= {_context(each.summary()) for each in throwable.getQueryContext()}
    return names


def _functions_in(raised: BaseException) -> list[str]:
    """Return, as a list, the function in which a Python worker raised: the first of the user's frames."""
    if not isinstance(raised, Py4JJavaError | CapturedException):
        return []
    frames = frames_of_user(str(raised))
    return [frames[0].function] if frames else []


def _marks_of(rows: DataFrame) -> Counter[str]:
    marks: Counter[str] = Counter()
    plans = [rows._jdf.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        plans += _elements(plan.children())
        expressions = list(_elements(plan.expressions()))
        while expressions:
            expression = expressions.pop()
            expressions += _elements(expression.children())
            marks.update(_marks_of_expression(expression))
    return marks


def _marks_of_expression(expression: Any) -> Iterator[str]:
    context = expression.origin().context()
    if context.summary():
        yield _context(context.summary())
    if expression.getClass().getSimpleName() in _PYTHON_FUNCTIONS:
        yield f"function {expression.name()}"


def _context(summary: str) -> str:
    return f"expression {summary.strip()}"


def _files_of(slices: Slices) -> Counter[str]:
    return Counter(file for rows in slices for file in rows.inputFiles())


def _elements(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


_PYTHON_FUNCTIONS = frozenset({"PythonUDF", "PythonUDAF", "PythonUDTF"})
