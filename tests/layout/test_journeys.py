"""`scripts/journeys.py`: which files and names are counted for a journey."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from tests.layout.sources import script

DECIDING = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Told:
    what: str

@dataclass(frozen=True)
class Tell:
    message: Told

def decide():
    return [Tell(Told("on"))]
"""
ACTING = """
from way.beside import measure
from way.deciding import decide
from way.kernel import put

def perform(effect):
    put(effect.message)

def turn():
    measure()
    for effect in decide():
        perform(effect)
"""
BESIDE = """
from way.deciding import Told

def measure():
    return Told("of no one")
"""
KERNEL = """
def put(message):
    pass
"""


@pytest.fixture(scope="module")
def journeys() -> ModuleType:
    return script("journeys")


@pytest.fixture
def way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "way"
    folder.mkdir()
    for name, source in (("deciding", DECIDING), ("acting", ACTING), ("beside", BESIDE), ("kernel", KERNEL)):
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_only_files_whose_code_leads_to_the_message_are_counted(journeys: Any, way: Path) -> None:
    profiler = journeys.Profiler(way, ["way"])
    acting, kernel = import_module("way.acting"), import_module("way.kernel")
    hops = []

    def on_put(frame: FrameType) -> None:
        hops.append(profiler.hop(frame, frame.f_locals["message"], "Told", "/user/a", 1))

    profiler.watch(kernel.put, on_put)
    profiler.begin_span()
    profiler.start()
    acting.turn()
    profiler.stop()

    (hop,) = hops
    assert {file for file, _ in hop.units} == {"way/acting.py", "way/deciding.py", "way/kernel.py"}
    assert ("way/deciding.py", "decide") in hop.units, "the effect was an argument of `perform`"


def test_a_journey_follows_the_causes_backwards(journeys: Any) -> None:
    def hop(message: str, cause: int | None, *files: str, names: tuple[Any, ...] = ()) -> Any:
        return journeys.Hop(message, "/user/task/bridge#1", cause, frozenset((each, "f") for each in files), names)

    batch, asked = frozenset({"BatchRef"}), frozenset({journeys.ASKED})
    answer = (journeys.Name("read_splits", asked), journeys.Name("ReadSplits"), journeys.Name("StageResult", batch))
    journal = journeys.Journal(
        {
            1: hop("Create", None, "other.py"),
            2: hop("SplitsDiscovered", 1, "coordinator.py"),
            3: hop("Heartbeat", 1, "heartbeat.py"),
            4: hop("ReadSplits", 2, "task.py"),
            5: hop("StageResult", 4, "bridge.py", "engine.py", names=answer),
            6: hop("BufferResponse", 5, "task.py", "outputs.py", names=(journeys.Name("BufferResponse", batch),)),
        }
    )

    found = journeys.batch_journey(journal)

    assert found.files == ("bridge.py", "coordinator.py", "engine.py", "outputs.py", "task.py")
    assert found.messages == ("SplitsDiscovered", "ReadSplits", "StageResult", "BufferResponse")
    assert found.names == ("StageResult",), "the function has the name of its command"
