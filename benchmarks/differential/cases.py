"""Programs, the modes in which they run, and their outcomes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.differential.tables import Table


@dataclass(frozen=True)
class Case:
    """A program: the source texts of its stream and of its batch, and the tables that it may read."""

    stream: str
    truth: str
    tables: tuple[Table, ...]
    zone: str = "UTC"


@dataclass(frozen=True)
class Mode:
    """The mode of a job: its parallelism, whether a TaskManager is killed, and the parallelism after a savepoint."""

    parallelism: int = 1
    kill: bool = False
    restored_at: int | None = None

    @property
    def in_halves(self) -> bool:
        """True if a kill or a savepoint happens between the first files and the others."""
        return self.kill or self.restored_at is not None

    @property
    def knows_late_rows(self) -> bool:
        """True if late rows are known beforehand, because there is one subtask; several may overtake each other."""
        return {self.parallelism, self.restored_at} <= {1, None}

    def __str__(self) -> str:
        killed = ", a TaskManager killed" if self.kill else ""
        restored = "" if self.restored_at is None else f", restored from a savepoint at {self.restored_at}"
        return f"at parallelism {self.parallelism}{killed}{restored}"


@dataclass(frozen=True)
class Outcome:
    """The result of a program: `equal`, `refused` or `differs`, with the reason."""

    kind: str
    why: str = ""
    sort: str = ""
    """The kind of error: two differences with the same kind may have the same cause."""


EQUAL = Outcome("equal")


def differs(what: str, error: Exception) -> Outcome:
    """Return the outcome of a run that raised `error`; `sort` is Spark's error code, or the text without numbers."""
    text = short(error)
    code = re.search(r"\w+: .*?\[[A-Z_.]+\]|\w+Error: .*", text)
    return Outcome("differs", f"{what}: {text}", f"{what}: {re.sub('[0-9]+', '*', code.group() if code else text)}")


def short(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
