"""The seam to Pykka: the private names that the kernel leans on, and faults of plain Pykka that it must not have."""

from __future__ import annotations

import threading

import pykka
import pytest
from pykka import ActorRegistry
from pykka._envelope import Envelope

from flykka.runtime import registry
from flykka.runtime.cell import Cell
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.players import in_turn, player, replies, says


class Plain(pykka.ThreadingActor):
    """A stock actor that answers with what it gets, or raises it."""

    use_daemon_thread = True

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, threading.Event):
            message.wait(5)
        return message


def test_the_private_names_of_pykka_are_where_the_kernel_expects_them() -> None:
    assert list(Envelope.__slots__) == ["message", "reply_to"]
    assert isinstance(ActorRegistry._actor_refs, list)
    assert ActorRegistry._actor_refs_lock.acquire(blocking=False)
    ActorRegistry._actor_refs_lock.release()
    assert pykka.Actor.__abstractmethods__ == {"_create_actor_inbox", "_create_future", "_start_actor_loop"}
    plain = Plain()
    assert set(vars(plain)) == {"actor_urn", "actor_inbox", "actor_stopped", "_actor_ref"}
    assert set(vars(plain._actor_ref)) == {
        "_actor_weakref",
        "actor_class",
        "actor_urn",
        "actor_inbox",
        "actor_stopped",
    }


def test_pykka_stops_kernel_actors_with_its_own() -> None:
    with ActorSystem("mixed") as system:
        kernel = system.spawn(player([]), "a")
        stock = Plain.start()

        assert set(ActorRegistry.get_by_class(Cell)) >= {kernel}
        ActorRegistry.stop_all(timeout=5)

        assert not kernel.is_alive()
        assert not stock.is_alive()
        assert system.terminated.wait(timeout=5)


def test_a_broadcast_goes_past_the_dead() -> None:
    log: list[str] = []
    with SeededSystem(1) as system:
        system.spawn(player([]), "dead").stop()
        system.spawn(player(log), "alive")
        ActorRegistry.broadcast(says("all"), Cell)
        system.run_until_idle()

    assert "alive all" in log


def test_unregistering_many_takes_one_pass(system: SeededSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_AT_ONCE", 0)
    refs = [system.spawn(player([]), f"a{number}") for number in range(40)]
    before = len(ActorRegistry.get_all())

    refs[0].stop()
    assert len(ActorRegistry.get_all()) == before
    for ref in refs[1:]:
        ref.stop()

    assert len(ActorRegistry.get_all()) < before - 30
    registry.sweep()
    assert not set(refs) & set(ActorRegistry.get_all())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reply_set_from_outside_kills_pykkas_thread_and_not_ours(threaded: ActorSystem) -> None:
    earlier = set(threading.enumerate())
    stock = Plain.start()
    (thread,) = set(threading.enumerate()) - earlier
    go_on = threading.Event()
    stock.ask(go_on, block=False).set("from outside")
    go_on.set()
    thread.join(5)
    assert stock.is_alive()
    assert not thread.is_alive()
    ActorRegistry.unregister(stock)

    reached = threading.Event()
    ref = threaded.spawn(player([], {"q": in_turn(lambda _: reached.wait(5), replies), "r": replies}), "a")
    reply = ref.ask(says("q"), block=False)
    reply.set(says("from outside"))
    reached.set()

    assert reply.get(timeout=5) == says("from outside")
    assert ref.ask(says("r"), timeout=5) == says("reply")


def test_a_tell_to_the_dead_raises_in_pykka_and_not_here(system: SeededSystem) -> None:
    stock = Plain.start()
    stock.stop()
    with pytest.raises(pykka.ActorDeadError):
        stock.tell("x")

    ref = system.spawn(player([]), "a")
    ref.stop()

    ref.tell(says("x"))


def test_a_failure_kills_pykkas_actor_when_told_and_not_ours(
    system: SeededSystem, caplog: pytest.LogCaptureFixture
) -> None:
    stock = Plain.start()
    stock.tell(ValueError("told"))
    assert stock.actor_stopped.wait(5)

    ref = system.spawn(player([], {"fail": lambda _: 1 / 0}), "a")
    ref.tell(says("fail"))
    system.run_until_idle()

    assert ref.is_alive()
    assert "division by zero" in caplog.text
