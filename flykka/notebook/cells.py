"""Cells are run again: what a cell has written down, and not executed, it writes down anew and not twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from flykka.notebook.shell import interactive_shell

if TYPE_CHECKING:
    from flykka.api.environment import StreamExecutionEnvironment
    from flykka.api.streams.program import Program
    from flykka.api.streams.transformation import Transformation

Written = dict[str, tuple["Transformation", ...]]
"""What the last run of a cell has written down, by the id of the cell."""


class Cells:
    """Follows the cells of a shell, and what they write down in environments.

    Only cells with an id are followed: JupyterLab, Notebook 7 and VS Code give them one.
    """

    def __init__(self, shell: Any) -> None:
        self._environments: WeakSet[StreamExecutionEnvironment] = WeakSet()
        self._written: WeakKeyDictionary[Program, Written] = WeakKeyDictionary()
        self._before: dict[Program, frozenset[Transformation]] = {}
        self._cell: str | None = None
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.end)

    def follow(self, environment: StreamExecutionEnvironment) -> None:
        """Take an environment in."""
        self._environments.add(environment)

    def begin(self, execution: Any) -> None:
        """A cell begins: what its last run has written down is taken back."""
        self._cell = execution.cell_id
        for program in self._programs():
            if self._cell is not None:
                program.take_back(self._written.get(program, {}).pop(self._cell, ()))
        self._before = {program: frozenset(program.transformations) for program in self._programs()}

    def end(self, _: object) -> None:
        """A cell has ended: what is in the programs now and was not before is its work."""
        cell, self._cell = self._cell, None
        if cell is None:
            return
        for program in self._programs():
            before = self._before.get(program, frozenset())
            work = tuple(each for each in program.transformations if each not in before)
            self._written.setdefault(program, {})[cell] = work
        self._before = {}

    def _programs(self) -> list[Program]:
        return [environment.program for environment in self._environments]


_cells: Cells | None = None


def follow_cells(environment: StreamExecutionEnvironment) -> None:
    """From now on a cell that is run again takes back what it has written down in this environment; in IPython only."""
    global _cells
    shell = interactive_shell()
    if shell is None:
        return
    if _cells is None:
        _cells = Cells(shell)
    _cells.follow(environment)
