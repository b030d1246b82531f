"""Traces in a real Jupyter kernel: a cell's actors are recorded, replayed and stepped through, and displayed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flykka.notebook.kernel import Cell, Kernel

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ACTORS = """
from flykka import Replayer, Trace
from flykka.runtime import Actor, Message, Props, message
from flykka.runtime.testing import SeededSystem
from flykka.runtime.trace.record.recorder import TraceRecorder

@message("cells.add")
class Add(Message):
    amount: int

class Account(Actor):
    def __init__(self):
        self.total = 0

    def handle_message(self, message):
        self.total += message.amount
"""
RECORD = """
with SeededSystem(recorder=TraceRecorder("run.trace")) as system:
    account = system.spawn(Props(Account), "account")
    for amount in (1, 20, 300):
        account.tell(Add(amount=amount))
    system.run_until_idle()
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(tmp_path_factory.mktemp("kernel")) as made:
        made.run(ACTORS + RECORD)
        yield made


def html(cell: Cell) -> str:
    return cell.shown[-1]["text/html"]


def test_a_trace_as_cell_result_is_displayed_as_a_table(kernel: Kernel) -> None:
    cell = kernel.run('Trace.open("run.trace")')

    assert cell.text.startswith("run.trace: recording of actor system 'seeded'")
    assert html(cell).count(">Add(amount=") == 3


def test_a_replay_reports_its_outcome(kernel: Kernel) -> None:
    cell = kernel.run('Replayer().replay("run.trace")')

    assert cell.text.startswith("replay as recorded: ")
    assert "as recorded" in html(cell)


def test_stepping_forward_and_back_shows_each_turn_with_its_changes(kernel: Kernel) -> None:
    kernel.run('session = Replayer().session("run.trace")')

    second = kernel.run("session.run_until(Add, amount=20)")
    third = kernel.run("session.step()")
    back = kernel.run("session.back()")
    whole = kernel.run("session")
    state = kernel.run('session.state("account")')
    changes = kernel.run("session.changes")

    assert "changed total: 1 -> 21" in second.text
    assert "changed total: 21 -> 321" in third.text
    assert back.text == second.text
    assert "▸" in html(whole)
    assert state.text == "Account(total=21)"
    assert changes.text == "[total: 1 -> 21]"


def test_an_actor_corrected_in_a_cell_diverges_from_the_recorded_one(kernel: Kernel) -> None:
    kernel.run(ACTORS.replace("self.total +=", "self.context.stop(); self.total +="))
    try:
        cell = kernel.run('Replayer().replay("run.trace")')
    finally:
        kernel.run(ACTORS)

    assert "DIVERGENCE at turn" in cell.text
    assert "stops /user/account" in html(cell)


def test_a_sequence_diagram_is_shown_in_a_frame(kernel: Kernel) -> None:
    cell = kernel.run('Trace.open("run.trace").sequence_diagram(actors=["account"])')

    assert html(cell).startswith("<iframe srcdoc=")
    assert cell.text.startswith("sequence diagram of run.trace: ")
