"""Refs as values, the refusal of proxies, and the context variables of a turn."""

from __future__ import annotations

import contextvars
import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable

import pykka
import pytest

from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.dispatch.pool import SharedPool
from flykka.runtime.errors import ProxyNotSupportedError
from flykka.runtime.props import DispatcherName, Props
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.pykka_faults.conftest import Play, Stage
from tests.runtime.pykka_faults.stock import LONG_ENOUGH, Stock
from tests.runtime.scripted_actors import in_turn, replies, says, scripted_actor


class Touchy:
    def __init__(self, touched_in: list[threading.Thread]) -> None:
        self._touched_in = touched_in

    def __getattr__(self, name: str) -> object:
        self._touched_in.append(threading.current_thread())
        raise AttributeError(name)


def test_p23_proxies_cannot_read_a_living_actor(system: SeededSystem, stage: Stage) -> None:
    touched_in: list[threading.Thread] = []
    stock = stage({"start": lambda actor: setattr(actor, "touchy", Touchy(touched_in))})
    stock.ref.ask("sync")
    stock.ref.proxy()
    assert set(touched_in) == {threading.current_thread()}

    ref = system.spawn(scripted_actor([]), "a")

    ways: tuple[Callable[[], object], ...] = (ref.proxy, lambda: pykka.ActorProxy(actor_ref=ref))
    for make in ways:
        with pytest.raises(ProxyNotSupportedError, match=r"takes messages, not attribute access: ref\.tell"):
            make()


def test_p24_a_ref_does_not_keep_an_ended_actor_in_memory(
    threaded: ActorSystem, stage: Stage, dispatcher: DispatcherName
) -> None:
    actors: list[weakref.ref[object]] = []
    stock = stage({"start": lambda actor: actors.append(weakref.ref(actor))})
    proxy = stock.ref.proxy()
    stock.ref.stop()
    stock.wait_thread_ended()
    gc.collect()
    assert actors.pop()() is not None
    del proxy

    def make() -> Actor:
        instance = Actor()
        actors.append(weakref.ref(instance))
        return instance

    ref = threaded.spawn(Props(make).with_dispatcher(dispatcher), "a")
    ref.stop(timeout=LONG_ENOUGH)
    gc.collect()

    assert actors.pop()() is None
    assert str(ref) == "/user/a#1"


@message("test.introduce")
class Introduce(Message):
    """anyone -> anyone: introduce an actor by its ref."""

    whom: Ref


def test_p25_refs_travel_in_messages(system: SeededSystem, stage: Stage) -> None:
    for attempt in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(stage().ref)

    ref = system.spawn(scripted_actor([]), "a")
    arrived = decode(encode(Introduce(whom=ref)), system.resolve)
    elsewhere = decode(encode(Introduce(whom=ref)))
    ref.stop()
    late = decode(encode(Introduce(whom=ref)), system.resolve)

    assert isinstance(arrived, Introduce)
    assert arrived.whom is ref
    for other in (elsewhere, late):
        assert other == arrived
        assert isinstance(other, Introduce)
        assert other.whom is not ref


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


def _notes_who(seen: list[str]) -> Callable[[object], object]:
    return lambda _actor: seen.append(WHO.get())


def _becomes(name: str) -> Callable[[ActorContext], object]:
    return lambda _context: WHO.set(name)


def test_p27_context_variables_of_the_spawner_are_private_to_each_actor(stage: Stage, ours: Play) -> None:
    seen: list[str] = []
    stock = stage({"q": _notes_who(seen)})
    contextvars.copy_context().run(lambda: (WHO.set("the asker"), stock.ref.ask("q")))
    assert seen == ["nobody"], "neither a variable nor a sender tells the actor"

    seen.clear()
    senders: list[str] = []
    with ActorSystem("two", dispatcher=SharedPool(1)) as system:
        script = {"become": _becomes("a"), "q": in_turn(_notes_who(seen), replies)}
        one, other = (system.spawn(ours([], script), name) for name in ("one", "other"))
        asked = system.spawn(
            ours([], {"x": lambda context: senders.append(str(context.sender)), "r": replies}), "asked"
        )
        asker = system.spawn(ours([], {"ask": lambda _: asked.tell(says("x")), "r": replies}), "asker")
        one.tell(says("become"))
        for ref in (one, other, one):
            ref.ask(says("q"), timeout=LONG_ENOUGH)
        asker.tell(says("ask"))
        for ref in (asker, asked):
            ref.ask(says("r"), timeout=LONG_ENOUGH)

    assert seen == ["a", "nobody", "a"], "on a pool, one thread ran them all"
    assert senders == ["/user/asker#1"]


def test_plain_pykka_actors_and_kernel_actors_coexist(threaded: ActorSystem, stage: Stage) -> None:
    stock = stage()
    ref = threaded.spawn(
        scripted_actor([], {"go": in_turn(lambda _: stock.ref.tell("from a kernel actor"), replies)}), "a"
    )

    ref.ask(says("go"), timeout=LONG_ENOUGH)
    stock.ref.ask("sync")

    assert stock.log == ["start", "from a kernel actor", "sync"]
    assert ref in pykka.ActorRegistry.get_all()
    assert stock.ref in pykka.ActorRegistry.get_by_class(Stock)
