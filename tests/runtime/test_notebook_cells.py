"""Messages and actors that are declared in a notebook's cells, which are run again and again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from flykka.runtime.errors import InvalidActorNameError
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem

MESSAGES = """
from enum import StrEnum
from flykka.messages.message import Message, Value, message, value

class Unit(StrEnum):
    ONE = "ONE"

@value("cell_test.amount")
class Amount(Value):
    number: int
    unit: Unit = Unit.ONE

@message("cell_test.total")
class Total(Message):
    number: int
"""
ENVELOPE = """
@message("cell_test.add")
class Add(Message):
    amount: Amount

@message("cell_test.tell_total")
class TellTotal(Message):
    pass
"""
ACTOR = """
from flykka.runtime.actor import Actor

class Counter(Actor):
    def __init__(self):
        self.number = 0

    def handle_message(self, message):
        match message:
            case Add(amount=amount):
                self.number += amount.number
            case TellTotal():
                self.context.sender.tell(Total(number=self.number))
            case _:
                self.context.unhandled(message)
"""

Run = Callable[[str], Any]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a cell in the one namespace that all cells share; returns that."""
    notebook = ModuleType("notebook_of_the_test")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)

    def execute(cell: str) -> ModuleType:
        exec(compile(cell, "<cell>", "exec"), notebook.__dict__)
        return notebook

    return execute


@pytest.fixture(params=[False, True], ids=["as it is", "through the codec"])
def system(request: pytest.FixtureRequest) -> Iterator[ActorSystem]:
    with SeededSystem(1, serialize_messages=request.param) as made:
        yield made


def test_cells_that_are_run_again_work_as_the_first_time(run: Run, system: ActorSystem) -> None:
    for name in ("first", "second"):
        for cell in (MESSAGES, ENVELOPE, ACTOR):
            cells = run(cell)
        counter = system.spawn(Props(cells.Counter), name)

        counter.tell(cells.Add(amount=cells.Amount(number=3)))

        assert counter.ask(cells.TellTotal()) == cells.Total(number=3)


def test_an_actor_from_before_hears_messages_that_were_declared_anew(run: Run, system: ActorSystem) -> None:
    for cell in (MESSAGES, ENVELOPE, ACTOR):
        cells = run(cell)
    counter = system.spawn(Props(cells.Counter), "counter")
    counter.tell(cells.Add(amount=cells.Amount(number=3)))
    counter.ask(cells.TellTotal())

    run(MESSAGES)
    run(ENVELOPE)
    counter.tell(cells.Add(amount=cells.Amount(number=4)))

    assert counter.ask(cells.TellTotal()) == cells.Total(number=7)


def test_one_cell_may_be_run_again_without_those_that_build_on_it(run: Run, system: ActorSystem) -> None:
    for cell in (MESSAGES, ENVELOPE, ACTOR):
        cells = run(cell)
    counter = system.spawn(Props(cells.Counter), "counter")
    counter.tell(cells.Add(amount=cells.Amount(number=3)))
    counter.ask(cells.TellTotal())

    run(MESSAGES)
    counter.tell(cells.Add(amount=cells.Amount(number=4)))

    assert counter.ask(cells.TellTotal()) == cells.Total(number=7)


def test_a_living_actor_keeps_its_name_until_it_is_stopped(run: Run, system: ActorSystem) -> None:
    for cell in (MESSAGES, ENVELOPE, ACTOR):
        cells = run(cell)
    counter = system.spawn(Props(cells.Counter), "counter")

    run(ACTOR)
    with pytest.raises(InvalidActorNameError, match="counter"):
        system.spawn(Props(cells.Counter), "counter")
    counter.stop()

    assert system.spawn(Props(cells.Counter), "counter").ask(cells.TellTotal()) == cells.Total(number=0)
