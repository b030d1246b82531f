"""The stash at a restart, a stop and a kill."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Iterable

import pytest

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.cell.cell import Cell
from flykka.runtime.context import ActorContext
from flykka.runtime.dispatch.pool import SharedPool
from flykka.runtime.errors import ActorDeadError
from flykka.runtime.events import DeadLetter
from flykka.runtime.mailbox.envelope import Envelope
from flykka.runtime.mailbox.message_queue import Entry, MessageQueue
from flykka.runtime.props import Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.listener import lost_in, tell_all
from tests.runtime.scripted_actors import Say, says
from tests.runtime.shop import Shop, shop


def test_a_restart_returns_the_stash_to_the_mailbox(system: SeededSystem) -> None:
    log: list[str] = []
    born_open = iter([False, True])

    def make() -> Shop:
        made = Shop(log, {"fail": fail})
        made.is_open = next(born_open)
        return made

    def fail(_context: ActorContext) -> None:
        raise RuntimeError("as the test says")

    ref = system.spawn(Props(make), "shop")
    tell_all(ref, "a", "b", "fail", "c")
    system.run_until_idle()

    assert log == ["a", "b", "c"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_stashed_and_queued_messages_become_dead_letters_in_order_at_the_end(system: SeededSystem, end: str) -> None:
    letters = lost_in(system)
    ref = system.spawn(shop([]), "shop")
    tell_all(ref, "a")
    asked = ref.ask(says("b"), block=False)
    system.run_until_idle()
    tell_all(ref, "c")

    ref.stop() if end == "stop" else system.kill(ref)

    assert [letter.message for letter in letters] == [says(text) for text in "abc"]
    with pytest.raises(ActorDeadError):
        asked.get(timeout=0)


def test_a_killed_actor_cannot_stash_messages(system: SeededSystem) -> None:
    letters = lost_in(system)

    def die_and_stash(context: ActorContext) -> None:
        context.system.kill(context.ref)
        context.stash()
        context.unstash_all()

    ref = system.spawn(shop([], {"die": die_and_stash}), "shop")
    tell_all(ref, "a", "die")
    system.run_until_idle()

    assert [letter.message for letter in letters] == [says("a")]


class Lethal(Envelope):
    """A message whose actor is killed while it is being stashed."""

    __slots__ = ()

    def stashed(self, cell: Cell) -> Envelope:
        cell.system.kill(cell.ref)
        return self


def test_messages_stashed_during_a_kill_are_dead_letters(system: SeededSystem) -> None:
    letters = lost_in(system)
    ref = system.spawn(shop([]), "shop")

    ref.actor_inbox.put(Lethal(says("a"), None, None))
    system.run_until_idle()

    assert [letter.message for letter in letters] == [says("a")]


class LethalMailbox:
    """A mailbox that kills its actor when a stashed message returns."""

    def create(self, owner: Cell) -> MessageQueue:
        class Queue(deque[Entry]):
            def extendleft(self, entries: Iterable[Entry], /) -> None:
                owner.system.kill(owner.ref)
                super().extendleft(entries)

        return Queue()


def test_messages_unstashed_during_a_kill_are_dead_letters(system: SeededSystem) -> None:
    letters = lost_in(system)
    ref = system.spawn(shop([]).with_mailbox(LethalMailbox()), "shop")

    tell_all(ref, "a", "b", "open", "c")
    system.run_until_idle()

    assert sorted(str(letter.message) for letter in letters) == sorted(str(says(text)) for text in "abc")


class Undecided(Actor):
    def __init__(self, seen: list[str], moment: threading.Event, seed: int) -> None:
        self.seen = seen
        self.moment = moment
        self.dice = random.Random(seed)
        self.left = seed * 20

    def handle_message(self, message: Message) -> None:
        assert isinstance(message, Say)
        self.left -= 1
        if self.left <= 0:
            self.moment.set()
        match self.dice.randrange(4):
            case 0:
                self.seen.append(message.text)
            case 1:
                self.seen.append(message.text)
                self.context.unstash_all()
            case _:
                self.context.stash()


@pytest.mark.parametrize("seed", range(6))
def test_a_kill_at_any_moment_loses_or_duplicates_no_stashed_message(seed: int) -> None:
    seen: list[str] = []
    lost: list[str] = []
    moment = threading.Event()
    words = [str(number) for number in range(200)]
    with ActorSystem("threads", dispatcher=SharedPool(2, throughput=5)) as system:
        system.event_stream.subscribe(lambda letter: lost.append(letter.message.text), DeadLetter)
        ref = system.spawn(Props(Undecided, seen, moment, seed), "undecided")
        teller = threading.Thread(target=tell_all, args=(ref, *words))
        teller.start()
        assert moment.wait(5)
        system.kill(ref)
        teller.join()

    # The current message at the kill is in neither list if it was about to be stashed.
    assert len(seen) + len(lost) >= len(words) - 1
    assert len({*seen, *lost}) == len(seen) + len(lost)
