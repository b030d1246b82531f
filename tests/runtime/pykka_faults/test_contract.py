"""The seam: Pykka's private names that the kernel leans on, and that every numbered fault has its test."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from pathlib import Path

import pykka
import pytest
from pykka import ActorRegistry, _actor, _ref
from pykka._envelope import Envelope

from flykka.runtime.cell.cell import Cell
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem
from tests.runtime.players import Player, player
from tests.runtime.pykka_faults import stock as faults
from tests.runtime.pykka_faults.conftest import Stage
from tests.runtime.pykka_faults.stock import Staged, Stock

HERE = Path(__file__).parent
RUNTIME = Path(inspect.getsourcefile(Cell) or "").parents[1]


def test_every_fault_has_one_test_and_every_test_its_fault() -> None:
    listed = re.findall(r"^    (P\d+) ", faults.__doc__ or "", re.MULTILINE)

    tests = re.findall(r"^def test_(p\d+)_", "\n".join(path.read_text() for path in HERE.glob("test_*.py")), re.M)

    assert listed == [f"P{number}" for number in range(1, 29)]
    assert sorted(tests) == sorted(name.lower() for name in listed)


def test_the_version_is_one_of_those_that_were_read() -> None:
    major, minor = (int(part) for part in version("pykka").split(".")[:2])

    assert major == 4
    assert minor >= 4


def test_an_envelope_has_the_two_slots_that_ours_fill() -> None:
    assert list(Envelope.__slots__) == ["message", "reply_to"]


def test_the_registry_is_a_list_under_a_reentrant_lock() -> None:
    assert isinstance(ActorRegistry._actor_refs, list)
    with ActorRegistry._actor_refs_lock, ActorRegistry._actor_refs_lock:
        pass


def test_an_actor_is_what_our_cells_stand_in_for() -> None:
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


def test_a_ref_uses_no_more_of_an_actor_than_ours_offer(threaded: ActorSystem) -> None:
    ref = threaded.spawn(player([]), "a")

    assert isinstance(ref, pykka.ActorRef)
    assert ref.actor_class is Player
    assert {"put", "get", "empty"} <= set(dir(ref.actor_inbox))
    assert {"is_set", "set", "wait"} <= set(dir(ref.actor_stopped))
    public = {name for name in vars(pykka.ActorRef) if not name.startswith("_")}
    assert public == {"is_alive", "tell", "ask", "stop", "proxy"}
    assert public - {"is_alive"} <= set(vars(ActorRef)), "what Pykka's ref does with its actor, ours does itself"


def test_proxies_reach_their_actor_by_the_way_that_ours_refuse() -> None:
    assert "actor_ref._actor_weakref()" in inspect.getsource(pykka.ActorProxy.__init__)


def test_the_message_that_stops_an_actor_is_never_sent_to_ours() -> None:
    assert "self.ask(_ActorStop(), block=False)" in inspect.getsource(_ref.ActorRef.stop)
    assert "_ActorStop" in inspect.getsource(_actor.Actor._handle_receive)


@pytest.mark.parametrize("name", ["pykka._envelope", "_actor_refs", "_actor_refs_lock"])
def test_the_private_names_are_used_where_the_seam_is(name: str) -> None:
    users = {path.name for path in RUNTIME.rglob("*.py") if re.search(rf"\b{re.escape(name)}\b", path.read_text())}

    assert users == {"envelope.py"} if name == "pykka._envelope" else users == {"registry.py"}


def test_pykka_stops_kernel_actors_with_its_own(stage: Stage) -> None:
    with ActorSystem("mixed") as system:
        kernel = system.spawn(player([]), "a")
        stock = stage()

        assert set(ActorRegistry.get_by_class_name("Player")) >= {kernel}
        ActorRegistry.stop_all(timeout=5)

        assert not kernel.is_alive()
        assert not stock.ref.is_alive()
        assert system.terminated.wait(timeout=5)
