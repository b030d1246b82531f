"""Messages in transit to an ending actor, to an ended actor, and to several actors at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import Queue
from typing import Any

import pykka
import pytest
from pykka import ActorRegistry

from flykka.runtime import pykka_seam
from flykka.runtime.errors import ActorDeadError
from flykka.runtime.events import DeadLetter
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.pykka_faults.conftest import Play, Stage
from tests.runtime.pykka_faults.stock import LONG_ENOUGH, Gate, Stock
from tests.runtime.scripted_actors import in_turn, replies, says, scripted_actor


class Interrupted(Queue[Any]):
    """A plain Pykka inbox that calls a hook right before each put, where any thread may be preempted."""

    before_put: Callable[[], object] = staticmethod(lambda: None)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        word, self.before_put = self.before_put, lambda: None
        word()
        super().put(item, block, timeout)


class WithInterruptedInbox(Stock):
    @staticmethod
    def _create_actor_inbox() -> Interrupted:
        return Interrupted()


class InterruptedDeque(deque[Any]):
    """The queue of a flykka mailbox that calls a hook before and after each append."""

    before: Callable[[], object] = staticmethod(lambda: None)
    behind: Callable[[], object] = staticmethod(lambda: None)

    def append(self, entry: Any) -> None:
        before, self.before = self.before, lambda: None
        before()
        super().append(entry)
        behind, self.behind = self.behind, lambda: None
        behind()


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_p1_an_ask_sent_while_the_actor_stops_is_answered(
    threaded: ActorSystem, stage: Stage, ours: Play, moment: str
) -> None:
    stock = stage({}, WithInterruptedInbox)
    inbox = stock.ref.actor_inbox
    assert isinstance(inbox, Interrupted)

    def stops() -> None:
        stock.ref.stop(timeout=LONG_ENOUGH)
        stock.wait_thread_ended()

    inbox.before_put = stops
    unanswered = stock.ref.ask("q", block=False)
    assert inbox.qsize() == 1, "no thread is left to take it"
    with pytest.raises(pykka.Timeout):
        unanswered.get(timeout=0)

    ref = threaded.spawn(ours([], {"r": replies}), "a")
    ref.ask(says("r"))
    queue = InterruptedDeque()
    ref.actor_inbox.messages = queue
    setattr(queue, moment, lambda: ref.stop(timeout=LONG_ENOUGH))
    refused = ref.ask(says("q"), block=False)

    assert refused.done()
    with pytest.raises(ActorDeadError, match="has stopped"):
        refused.get()


def test_p6_a_message_to_a_dead_actor_is_a_dead_letter(threaded: ActorSystem, stage: Stage, ours: Play) -> None:
    dead = stage()
    dead.ref.stop()
    sender = stage({"go": lambda _: dead.ref.tell("x")})
    sender.ref.tell("go")
    assert sender.ref.actor_stopped.wait(LONG_ENOUGH), "the sender dies of it"

    letters: list[DeadLetter] = []
    threaded.event_stream.subscribe(letters.append, DeadLetter)
    our_dead = threaded.spawn(ours([]), "dead")
    our_dead.stop()
    our_sender = threaded.spawn(ours([], {"go": in_turn(lambda _: our_dead.tell(says("x")), replies)}), "sender")

    assert our_sender.ask(says("go"), timeout=LONG_ENOUGH) == says("reply")
    assert our_sender.is_alive()
    assert [(letter.message, letter.sender) for letter in letters] == [(says("x"), our_sender)]


def test_p11_queued_messages_of_a_stopped_actor_are_dead_letters(
    threaded: ActorSystem, stage: Stage, ours: Play
) -> None:
    gate = Gate()
    stock = stage({"hold": gate.hold})
    stock.ref.tell("hold")
    stock.ref.stop(block=False)
    stock.ref.tell("late")
    gate.open()
    stock.wait_thread_ended()
    assert stock.log == ["start", "hold", "stop"], "nobody hears of the late one"

    letters: list[DeadLetter] = []
    threaded.event_stream.subscribe(letters.append, DeadLetter)
    gate = Gate()
    ref = threaded.spawn(ours([], {"hold": gate.hold}), "a")
    ref.tell(says("hold"))
    gate.wait_reached()
    stopped = ref.stop(block=False)
    ref.tell(says("late"))
    gate.open()
    stopped.get(timeout=LONG_ENOUGH)

    assert [(letter.message, letter.reason) for letter in letters] == [(says("late"), "the recipient has stopped")]


def test_p12_a_broadcast_skips_dead_actors(system: SeededSystem, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = stage({}, WithInterruptedInbox), stage(), stage()
    inbox = first.ref.actor_inbox
    assert isinstance(inbox, Interrupted)
    inbox.before_put = second.ref.stop
    with pytest.raises(pykka.ActorDeadError):
        ActorRegistry.broadcast("all", Stock)
    third.ref.ask("sync")
    assert third.log == ["start", "sync"], "behind the dead one nobody gets it"

    # With many actors the registry keeps dead refs for a while.
    monkeypatch.setattr(pykka_seam, "_AT_ONCE", 0)
    log: list[str] = []
    refs = [system.spawn(scripted_actor(log), name) for name in ("first", "dead", *"0123456789", "third")]
    system.run_until_idle()
    refs[1].stop()
    assert refs[1] in ActorRegistry.get_by_class_name("ScriptedActor")
    ActorRegistry.broadcast(says("all"), "ScriptedActor")
    system.run_until_idle()

    assert {"first all", "third all"} < set(log)
    pykka_seam.sweep()


def test_p21_a_stop_overtakes_queued_messages(threaded: ActorSystem, stage: Stage, ours: Play) -> None:
    gate = Gate()
    stock = stage({"hold": gate.hold})
    for word in ("hold", "x", "x"):
        stock.ref.tell(word)
    stock.ref.stop(block=False)
    gate.open()
    stock.wait_thread_ended()
    assert stock.log == ["start", "hold", "x", "x", "stop"]

    log: list[str] = []
    gate = Gate()
    ref = threaded.spawn(ours(log, {"hold": gate.hold}), "a")
    for word in ("hold", "x", "x"):
        ref.tell(says(word))
    gate.wait_reached()
    stopped = ref.stop(block=False)
    gate.open()
    stopped.get(timeout=LONG_ENOUGH)

    assert log == ["a start", "a hold", "a stop"]
