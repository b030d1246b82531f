"""A divergence reports the line that handles the message: the `case` for its class, or else the handler."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.ref import ActorRef
from flykka.runtime.replay.divergence import source_of
from flykka.runtime.signals import ReceiveTimeout, Terminated
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import Say, says

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flykka.runtime.cell.cell import Cell


class Matches(Actor):
    """Handles several message classes, each on its own line."""

    def handle_message(self, message: Message) -> None:
        match message:
            case Say(text="become"):
                self.context.become(self.other)
            case Terminated() | ReceiveTimeout():
                pass

    def other(self, message: Message) -> None: ...


def cell_of(ref: ActorRef) -> Cell:
    cell: Cell = ref.actor_inbox.owner  # type: ignore[assignment]
    return cell


def place_of_line(function: Callable[..., object], line: int) -> str:
    return f"{os.path.relpath(__file__)}:{inspect.getsourcelines(function)[1] + line}"


def test_the_reported_line_is_the_match_case_for_the_class(system: SeededSystem) -> None:
    ref = system.spawn(Props(Matches), "a")
    system.run_until_idle()

    assert source_of(cell_of(ref), says("x")) == place_of_line(Matches.handle_message, 2)
    assert source_of(cell_of(ref), ReceiveTimeout()) == place_of_line(Matches.handle_message, 4)


def test_the_handlers_line_is_reported_if_no_case_matches(system: SeededSystem) -> None:
    ref = system.spawn(Props(Matches), "a")
    ref.tell(says("become"))
    system.run_until_idle()

    assert source_of(cell_of(ref), says("x")) == place_of_line(Matches.other, 0)


def test_an_actor_without_an_instance_has_no_state(system: SeededSystem) -> None:
    ref = system.spawn(Props(Matches), "a")

    assert source_of(cell_of(ref), says("x")) is None


def test_the_reported_line_does_not_depend_on_the_working_directory(
    system: SeededSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = system.spawn(Props(Matches), "a")
    system.run_until_idle()
    expected = place_of_line(Matches.handle_message, 2)

    monkeypatch.syspath_prepend(os.getcwd())
    monkeypatch.chdir(tmp_path)

    assert source_of(cell_of(ref), says("x")) == expected
