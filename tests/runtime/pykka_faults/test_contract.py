"""The kernel's use of Pykka: the private names that it needs, and a check that every numbered fault has a test."""

from __future__ import annotations

import inspect
import re
import threading
from importlib.metadata import version
from pathlib import Path

import pykka
import pytest
from pykka import ActorRegistry, _actor, _ref
from pykka._envelope import Envelope

import flykka
from flykka.runtime import pykka_seam
from flykka.runtime.cell.async_cell import AsyncCell
from flykka.runtime.cell.cell import Cell
from flykka.runtime.cell.pinned_cell import PinnedCell
from flykka.runtime.futures.future import Future
from flykka.runtime.mailbox.envelope import Envelope as FlykkaEnvelope
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from tests.runtime.pykka_faults import stock as faults
from tests.runtime.pykka_faults.conftest import Play, Stage
from tests.runtime.pykka_faults.stock import Staged, Stock
from tests.runtime.scripted_actors import ScriptedActor, scripted_actor

HERE = Path(__file__).parent
ROOT = Path(inspect.getsourcefile(flykka) or "").parents[1]
PRODUCT = ("runtime", "actors", "messages", "spark_bridge", "flykka")
SEAM = pykka_seam.__name__


def test_every_fault_has_exactly_one_test() -> None:
    listed = re.findall(r"^    (P\d+) ", faults.__doc__ or "", re.MULTILINE)

    tests = re.findall(r"^def test_(p\d+)_", "\n".join(path.read_text() for path in HERE.glob("test_*.py")), re.M)

    assert listed == [f"P{number}" for number in range(1, 29)]
    assert sorted(tests) == sorted(name.lower() for name in listed)


def test_the_installed_pykka_version_is_supported() -> None:
    parts = tuple(int(part) for part in version("pykka").split(".")[:3])

    assert (4, 4, 2) <= parts < (5,), "before 4.4.2 refs had their actors, and no weak references of them"


def test_a_pykka_envelope_has_the_two_slots_that_kernel_envelopes_fill() -> None:
    assert list(Envelope.__slots__) == ["message", "reply_to"]


def test_the_registry_is_a_list_under_a_reentrant_lock() -> None:
    assert isinstance(ActorRegistry._actor_refs, list)
    with ActorRegistry._actor_refs_lock, ActorRegistry._actor_refs_lock:
        pass


def test_a_pykka_actor_has_the_attributes_that_cells_provide() -> None:
    assert pykka.Actor.__abstractmethods__ == {"_create_actor_inbox", "_create_future", "_start_actor_loop"}
    plain = Stock(Staged(), {})
    assert set(vars(plain)) - {"_staged", "_part"} == {"actor_urn", "actor_inbox", "actor_stopped", "_actor_ref"}
    assert set(vars(plain._actor_ref)) == {
        "_actor_weakref",
        "actor_class",
        "actor_urn",
        "actor_inbox",
        "actor_stopped",
    }


def test_pykka_refs_use_only_attributes_that_kernel_actors_have(threaded: ActorSystem) -> None:
    ref = threaded.spawn(scripted_actor([]), "a")

    assert isinstance(ref, pykka.ActorRef)
    assert ref.actor_class is ScriptedActor
    assert {"put", "empty"} <= set(dir(ref.actor_inbox))
    assert {"is_set", "set", "wait"} <= set(dir(ref.actor_stopped))
    public = {name for name in vars(pykka.ActorRef) if not name.startswith("_")}
    assert public == {"is_alive", "tell", "ask", "stop", "proxy"}
    assert public - {"is_alive"} <= set(vars(ActorRef)), "what Pykka's ref does with its actor, ours does itself"


def test_proxies_use_the_reference_that_kernel_actors_refuse() -> None:
    assert "actor_ref._actor_weakref()" in inspect.getsource(pykka.ActorProxy.__init__)


def test_pykkas_stop_message_is_sent_only_by_code_that_cells_replace() -> None:
    assert "self.ask(_ActorStop(), block=False)" in inspect.getsource(_ref.ActorRef.stop)
    assert "_ActorStop" in inspect.getsource(_actor.Actor._handle_receive)


PRIVATE = (
    "pykka._envelope",
    "_actor_ref",
    "_actor_refs",
    "_actor_refs_lock",
    "_actor_weakref",
    "_create_actor_inbox",
    "_create_future",
    "_start_actor_loop",
)


@pytest.mark.parametrize("name", PRIVATE)
def test_private_pykka_names_are_used_only_in_the_seam_module(name: str) -> None:
    sources = [path for package in PRODUCT for path in (ROOT / package).rglob("*.py")]

    users = {path.name for path in sources if re.search(rf"(?<!\w){re.escape(name)}\b", path.read_text())}

    assert users == {"pykka_seam.py"}


@pytest.mark.parametrize("kind", [Cell, AsyncCell, PinnedCell, ActorRef, Future, FlykkaEnvelope])
def test_private_pykka_methods_are_overridden_only_in_the_seam_module(kind: type) -> None:
    theirs = {name for base in kind.__mro__ if base.__module__.startswith("pykka.") for name in vars(base)}
    private = {name for name in theirs if re.match(r"_[a-z]", name)} - {"_abc_impl"}

    replaced = {(base.__module__, name) for base in kind.__mro__ if _is_ours(base) for name in private & {*vars(base)}}

    assert {module for module, _ in replaced} <= {SEAM}


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("flykka.")


def test_pykkas_loop_alternates_get_and_receive_until_the_actor_has_stopped() -> None:
    calls: list[str] = []

    class Inbox:
        def get(self) -> Envelope[str]:
            calls.append("get")
            return Envelope(f"message {calls.count('get')}")

        def empty(self) -> bool:
            calls.append("empty")
            return True

    class Looping(pykka.ThreadingActor):
        def on_start(self) -> None:
            calls.append("start")

        def on_receive(self, message: str) -> None:
            calls.append(message)
            if message == "message 2":
                self._stop()

        def on_stop(self) -> None:
            calls.append(f"stop, stopped: {self.actor_stopped.is_set()}")

    looping = Looping()
    looping.actor_inbox = Inbox()  # type: ignore[assignment]  # As our inbox, it takes nothing.
    looping._actor_loop()

    assert calls == ["start", "get", "message 1", "get", "message 2", "stop, stopped: True", "empty"]


def test_an_actor_thread_is_started_by_its_class_and_runs_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[threading.Thread] = []
    monkeypatch.setattr(Stock, "_actor_loop", lambda _: ran.append(threading.current_thread()))
    before = set(threading.enumerate())

    Stock(Staged(), {})._start_actor_loop()

    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert [(thread.daemon, thread is threading.current_thread()) for thread in ran] == [(True, False)]


def test_only_the_extension_points_of_pykkas_threading_actor_are_overridden() -> None:
    loop = {name for name in vars(_actor.Actor) if name.startswith("_actor_loop")}

    assert loop == {"_actor_loop", "_actor_loop_setup", "_actor_loop_running", "_actor_loop_teardown"}
    for name in (*loop, "_handle_receive", "_handle_failure"):
        assert getattr(PinnedCell, name) is getattr(pykka.ThreadingActor, name)


def test_pykkas_stop_all_also_stops_kernel_actors(stage: Stage, ours: Play) -> None:
    with ActorSystem("mixed") as system:
        kernel = system.spawn(ours([]), "a")
        stock = stage()

        assert set(ActorRegistry.get_by_class_name("ScriptedActor")) >= {kernel}
        ActorRegistry.stop_all(timeout=5)

        assert not kernel.is_alive()
        assert not stock.ref.is_alive()
        assert system.terminated.wait(timeout=5)
