"""Message and actor classes declared in a cell that is run again, in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flykka.notebook.kernel import Kernel

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SYSTEM = """
from flykka.runtime.system import ActorSystem
system = ActorSystem("notebook", serialize_messages=True)
names = iter(range(100))
"""

CELL = """
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props

@message("cells.greet")
class Greet(Message):
    name: str
    reply_to: Ref

@message("cells.greeted")
class Greeted(Message):
    text: str

class Greeter(Actor):
    def handle_message(self, message):
        match message:
            case Greet(name=name, reply_to=reply_to):
                reply_to.tell(Greeted(text=f"hello {name}"))
"""

GREET = """
greeter = system.spawn(Props(Greeter), f"greeter-{next(names)}")
greeter.ask(lambda me: Greet(name="Ada", reply_to=me), timeout=5).text
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    with Kernel(tmp_path) as made:
        made.run(SYSTEM)
        yield made
        made.run("system.terminate().wait(10)")


def test_a_cell_with_messages_and_an_actor_may_be_run_again(kernel: Kernel) -> None:
    kernel.run(CELL)
    first = kernel.run(GREET)

    kernel.run(CELL.replace("hello", "good evening"))
    second = kernel.run(GREET)

    assert (first.text, second.text) == ("'hello Ada'", "'good evening Ada'")


def test_a_rerun_cell_may_add_a_field_to_a_message(kernel: Kernel) -> None:
    kernel.run(CELL)

    kernel.run(CELL.replace("name: str\n", "name: str = 'nobody'\n    title: str = 'Dr'\n"))
    greeted = kernel.run(GREET)

    assert greeted.text == "'hello Ada'"
