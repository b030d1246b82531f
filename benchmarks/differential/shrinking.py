"""Shrinks a difference: simplifies its mode, program, columns and rows for as long as the results differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from benchmarks.differential.cases import Case, Mode, Outcome
from benchmarks.differential.choices import Choices
from benchmarks.differential.seeds import Drawing, drawing
from benchmarks.differential.tables import Table

_JOBS = 40
_CASES_PER_JOB = 6

Run = Callable[[Sequence[Case], Mode], list[Outcome]]


class Shrinking:
    """The smallest case so far that differs in the same way."""

    def __init__(self, run: Run, found: Drawing, mode: Mode, outcome: Outcome) -> None:
        self._run, self._jobs = run, 0
        self._found, self.case, self.mode, self.outcome = found, found.case, mode, outcome

    def shrink(self) -> None:
        """Shrink the case until nothing more can be removed, or enough jobs have run."""
        for mode in (Mode(1), Mode(4)):
            if mode == self.mode or self._take_first([self.case], mode):
                break
        self._take_first([replace(self.case, zone="UTC")])
        self._shrink_program()
        self._take_first([replace(self.case, tables=_tables_read(self.case))])
        self._take_first([replace(self.case, tables=tuple(_with_columns_read(self.case)))])
        self._shrink_rows()

    def _take_first(self, cases: Sequence[Case], mode: Mode | None = None) -> bool:
        """Adopt the first of these cases that differs in the same way, if any; several cases are run as one job."""
        mode = mode or self.mode
        for start in range(0, len(cases), _CASES_PER_JOB):
            if self._jobs == _JOBS:
                return False
            self._jobs += 1
            some = cases[start : start + _CASES_PER_JOB]
            for case, outcome in zip(some, self._run(some, mode), strict=True):
                if outcome.kind == "differs" and outcome.sort == self.outcome.sort:
                    self.case, self.mode, self.outcome = case, mode, outcome
                    return True
        return False

    def _shrink_program(self) -> None:
        tried = {self.case.stream}
        while True:
            smaller: dict[str, Drawing] = {}
            for choices in _fewer(self._found.choices):
                drawn = drawing(self._found.kind, Choices(choices), self.case.tables, self.case.zone)
                if len(drawn.case.stream) < len(self.case.stream) and drawn.case.stream not in tried:
                    smaller.setdefault(drawn.case.stream, drawn)
            tried |= set(smaller)
            by_length = sorted((drawn.case for drawn in smaller.values()), key=lambda case: len(case.stream))
            if not self._take_first(by_length):
                return
            self._found = smaller[self.case.stream]

    def _shrink_rows(self) -> None:
        parts = 2
        while (rows := sum(len(file) for table in self.case.tables for file in table.files)) >= parts:
            bounds = [rows * part // parts for part in range(parts + 1)]
            fewer = [_without_rows(self.case, range(*bounds[part : part + 2])) for part in range(parts)]
            if self._take_first(fewer):
                parts = max(parts - 1, 2)
            elif parts == rows:
                return
            else:
                parts = min(2 * parts, rows)


def _fewer(choices: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the choices with some of them removed, and with smaller values."""
    size = len(choices)
    while size := size // 2:
        for start in range(0, len(choices), size):
            yield choices[:start] + choices[start + size :]
    for place, choice in enumerate(choices):
        for smaller in {0, choice - 1} if choice else ():
            yield (*choices[:place], smaller, *choices[place + 1 :])


def _tables_read(case: Case) -> tuple[Table, ...]:
    words = set(re.findall(r"\w+", case.stream + case.truth))
    return tuple(table for table in case.tables if {table.name, f"{table.name}_log"} & words)


def _with_columns_read(case: Case) -> Iterator[Table]:
    """Yield the tables with the columns that the program names, and those that every source needs."""
    texts = (case.stream + case.truth).replace("\\", "").replace("``", "`")
    for table in case.tables:
        bare = {role: name.replace("\\", "") for role, name in table.columns.items()}
        columns = {role: name for role, name in table.columns.items() if role in ("id", "at") or bare[role] in texts}
        names = {*columns.values(), "row_kind"}
        files = tuple(
            tuple({name: value for name, value in row.items() if name in names} for row in file) for file in table.files
        )
        yield replace(table, columns=columns, files=files)


def _without_rows(case: Case, places: range) -> Case:
    """Return the case without these rows, numbered across its tables; a table keeps one file, even if empty."""
    tables, place = [], 0
    for table in case.tables:
        files = []
        for file in table.files:
            files.append(tuple(row for number, row in enumerate(file, place) if number not in places))
            place += len(file)
        tables.append(table.of_files(tuple(file for file in files if file) or ((),)))
    return replace(case, tables=tuple(tables))


def script(case: Case, mode: Mode, title: str) -> str:
    """Return a script that runs the case, with one line for each file of each table."""
    lines = [f"# {title}", "from decimal import Decimal", ""]
    lines += [
        "from benchmarks.differential.cases import Case, Mode",
        "from benchmarks.differential.running import run",
        "from benchmarks.differential.tables import Table",
        "from flykka.spark_bridge.session.session import spark_session",
    ]
    lines += ["", 'nan = float("nan")', "TABLES = ("]
    for table in case.tables:
        late = f", late=frozenset({set(table.late)})" if table.late else ""
        key = ", primary_key=True" if table.primary_key else ""
        lines += [f"    Table({table.name!r}, {table.columns!r}, ("]
        lines += [f"        {file!r}," for file in table.files]
        lines += [f"    ){key}{late}),"]
    lines += [")", f"STREAM = {case.stream!r}", f"BATCH = {case.truth!r}"]
    lines += ['spark = spark_session("local[2]", "differential", {"spark.sql.shuffle.partitions": "2"})']
    lines += [f"print(run(spark, [Case(STREAM, BATCH, TABLES, {case.zone!r})], {mode!r})[0])"]
    return "\n".join(lines) + "\n"
