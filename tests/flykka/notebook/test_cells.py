"""Running a cell again removes the operators that the cell had declared and not executed, and no others."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from flykka.api.notebook_cells import Cells
from flykka.api.streams.program import Program
from flykka.api.streams.transformation import Input, Transformation
from flykka.errors import DuplicateUidError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.source import SourceCode

if TYPE_CHECKING:
    from flykka.api.environment import StreamExecutionEnvironment


class Events:
    def __init__(self) -> None:
        self._callbacks: dict[str, Callable[[object], None]] = {}

    def register(self, event: str, callback: Callable[[object], None]) -> None:
        self._callbacks[event] = callback

    def trigger(self, event: str, info: object) -> None:
        self._callbacks[event](info)


class Notebook:
    """An environment that has only a program, and the cells that share it."""

    def __init__(self) -> None:
        self._events = Events()
        self._cells = Cells(SimpleNamespace(events=self._events))
        self._environment = Environment()
        self._cells.add_environment(cast("StreamExecutionEnvironment", self._environment))

    @property
    def program(self) -> Program:
        return self._environment.program

    def execute(self) -> None:
        self._environment.program = Program()

    def run(self, cell_id: str | None, *written: tuple[str, Transformation | None]) -> list[Transformation]:
        """Run a cell that declares operators, each given by a uid and its input."""
        self._events.trigger("pre_run_cell", SimpleNamespace(cell_id=cell_id))
        try:
            return [self._write(uid, source) for uid, source in written]
        finally:
            self._events.trigger("post_run_cell", SimpleNamespace())

    def uids(self) -> list[str]:
        return [transformation.uid for transformation in self.program.transformations]

    def _write(self, uid: str, source: Transformation | None) -> Transformation:
        made = Transformation(
            kind=OperatorKind.SOURCE if source is None else OperatorKind.STATELESS,
            position=self.program.next_position,
            name=uid,
            code=cast("SourceCode", None),
            inputs=() if source is None else (Input(source=source),),
            explicit_uid=uid,
        )
        self.program.add(made)
        return made


class Environment:
    def __init__(self) -> None:
        self.program = Program()


def test_a_rerun_cell_declares_its_operators_once() -> None:
    notebook = Notebook()
    notebook.run("a", ("flights", None))

    notebook.run("a", ("flights", None))

    assert notebook.uids() == ["flights"]


def test_dependent_operators_are_removed_and_those_of_other_cells_stay() -> None:
    notebook = Notebook()
    (flights,) = notebook.run("a", ("flights", None))
    notebook.run("b", ("late", flights), ("airports", None))

    notebook.run("a", ("flights", None))

    assert notebook.uids() == ["airports", "flights"]


def test_operators_of_a_rerun_cell_get_their_former_positions() -> None:
    notebook = Notebook()
    notebook.run("a", ("flights", None))
    notebook.run("b", ("airports", None))

    (flights,) = notebook.run("a", ("flights", None))

    assert flights.position == 1


def test_executed_operators_are_not_removed_from_the_next_program() -> None:
    notebook = Notebook()
    notebook.run("a", ("flights", None))
    notebook.execute()
    notebook.run("b", ("airports", None))

    notebook.run("a", ("flights", None))

    assert notebook.uids() == ["airports", "flights"]


def test_cells_without_an_id_cannot_repeat_a_uid() -> None:
    notebook = Notebook()
    notebook.run(None, ("flights", None))

    with pytest.raises(DuplicateUidError):
        notebook.run(None, ("flights", None))
