"""Message and actor classes that are declared in notebook cells, which are executed repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flykka.runtime.errors import InvalidActorNameError
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem

MESSAGES = """
from enum import StrEnum
from flykka.messages.wire.message import Message, Value, message, value

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


@pytest.fixture(params=[False, True], ids=["unencoded", "through the codec"])
def system(request: pytest.FixtureRequest) -> Iterator[ActorSystem]:
    with SeededSystem(1, serialize_messages=request.param) as made:
        yield made


def test_repeated_notebook_cells_work_as_the_first_time(run_cell: Run, system: ActorSystem) -> None:
    for name in ("first", "second"):
        for cell in (MESSAGES, ENVELOPE, ACTOR):
            cells = run_cell(cell)
        counter = system.spawn(Props(cells.Counter), name)

        counter.tell(cells.Add(amount=cells.Amount(number=3)))

        assert counter.ask(cells.TellTotal()) == cells.Total(number=3)


@pytest.mark.parametrize(
    "again", [(MESSAGES, ENVELOPE), (MESSAGES,)], ids=["all messages", "without those that build on the cell"]
)
def test_an_existing_actor_handles_messages_of_a_redeclared_class(
    run_cell: Run, system: ActorSystem, again: tuple[str, ...]
) -> None:
    for cell in (MESSAGES, ENVELOPE, ACTOR):
        cells = run_cell(cell)
    counter = system.spawn(Props(cells.Counter), "counter")
    counter.tell(cells.Add(amount=cells.Amount(number=3)))
    counter.ask(cells.TellTotal())

    for cell in again:
        run_cell(cell)
    counter.tell(cells.Add(amount=cells.Amount(number=4)))

    assert counter.ask(cells.TellTotal()) == cells.Total(number=7)


def test_a_living_actor_occupies_its_name_until_it_is_stopped(run_cell: Run, system: ActorSystem) -> None:
    for cell in (MESSAGES, ENVELOPE, ACTOR):
        cells = run_cell(cell)
    counter = system.spawn(Props(cells.Counter), "counter")

    run_cell(ACTOR)
    with pytest.raises(InvalidActorNameError, match="counter"):
        system.spawn(Props(cells.Counter), "counter")
    counter.stop()

    assert system.spawn(Props(cells.Counter), "counter").ask(cells.TellTotal()) == cells.Total(number=0)
