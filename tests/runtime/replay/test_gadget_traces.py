"""Traces are untrusted: a replay imports no module because of names in a trace, and creates nothing but actors."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import msgpack
import pytest

from flykka.cli.main import main
from flykka.messages.wire.ref import Ref
from flykka.replay.data_planes import Recorded
from flykka.replay.replayer import Replayer
from flykka.runtime.errors import ForeignModuleError, UnresolvedPropsError
from flykka.runtime.replay.props_resolver import PropsResolver
from flykka.runtime.replay.recordable import is_own
from flykka.runtime.trace.file.frame_format import block, end, header, snapshots
from flykka.runtime.trace.record_tuples import SPAWNED
from flykka.runtime.trace.records import Spawned
from tests.layout.sources import ROOT

pytestmark = pytest.mark.slow

ACTOR = "actor.backoff_supervisor"
Nodes = list[tuple[str, object]]

HARM = """
from pathlib import Path
Path(__file__).with_name("harm").touch()
def do(*_): Path(__file__).with_name("harm").touch()
class Harm:
    def __init__(self, *_): do()
    def __reduce__(self): return do, ()
    @classmethod
    def make(cls): do()
"""


def argument(*nodes: tuple[str, object]) -> Nodes:
    """Return Props whose first argument is the first of these nodes; indexes begin at 2."""
    return [("props", [[1], [[2]], [], "default", None]), ("named", ACTOR), *nodes]


def factory(name: str, *arguments: object) -> Nodes:
    return [("props", [[1], list(arguments), [], "default", None]), ("named", name)]


def inner_props(*nodes: tuple[str, object]) -> Nodes:
    """Return Props within Props; the inner factory is the first of these nodes."""
    return argument(("props", [[3], ["touch harm"], [], "default", None]), *nodes)


GADGETS: dict[str, Nodes] = {
    "os.system": factory("os:system", "touch harm"),
    "posix.system": factory("posix:system", "touch harm"),
    "eval": factory("builtins:eval", "open('harm', 'w')"),
    "open": factory("builtins:open", "harm", "w"),
    "type": factory("builtins:type", "Harm", [], []),
    "partial of os.system": argument(("partial", [[3], ["touch harm"], []]), ("named", "os:system")),
    "partial as factory": [
        ("props", [[1], [], [], "default", None]),
        ("partial", [[2], ["touch harm"], []]),
        ("named", "os:system"),
    ],
    "inner Props over os.system": inner_props(("named", "os:system")),
    "inner Props over a partial": inner_props(("partial", [[4], [], []]), ("named", "subprocess:getoutput")),
    "attrgetter": argument(("partial", [[3], ["system"], []]), ("named", "operator:attrgetter")),
    "Popen": argument(("object", ["subprocess:Popen", [["args", "touch harm"]]])),
    "Path": argument(("object", ["pathlib:Path", [["_raw_paths", ["harm"]]]])),
    "pickle in flykka": argument(("named", "flykka.spark_bridge.session.gateway:pickle.loads")),
    "os in flykka": argument(("named", "flykka.runtime.trace.file.frame_format:os.system")),
    "os within a class": argument(("named", "flykka.runtime.patterns.coordinated_shutdown:os.kill")),
    "re-exported partial": argument(("named", "flykka.runtime.patterns.circuit_breaker:partial")),
    "re-exported import_module": argument(("named", "flykka.runtime.trace.file.reader:import_module")),
    "lazily imported name": argument(("named", "flykka:Replayer")),
    "function of flykka": argument(("named", "flykka.write_whole")),
    "enricher": argument(("named", "flykka._installed")),
    "test probe": factory("flykka._Probed"),
    "client": factory("actor.job_client"),
    "client by its module": factory("flykka.client.client_actor:JobClientActor"),
    "command line": factory("flykka.cli.main:main", ["run", "harm.py"]),
    "recorder": argument(("object", ["flykka.TraceRecorder", [["_path", "harm"]]])),
    "foreign class": factory("harm_of_traces:Harm"),
    "foreign function": argument(("partial", [[3], [], []]), ("named", "harm_of_traces:do")),
    "foreign object": argument(("object", ["harm_of_traces:Harm", []])),
    "foreign enum": argument(("enum", ["harm_of_traces:Harm", "do"])),
    "classmethod": argument(("named", "harm_of_traces:Harm.make")),
    "reduce": argument(("reduce", ["harm_of_traces:do", []])),
    "foreign submodule": argument(("named", "harm_of_traces.os:system")),
    "dots": argument(("named", "..harm_of_traces:do")),
    "relative": argument(("named", ".harm_of_traces:do")),
    "path": argument(("named", "../harm_of_traces:do")),
    "method of text": argument(("method", [[3], "format"]), ("tuple", [])),
    "class of an object": argument(
        ("object", ["backoff.delays", [["__class__", [3]]]]),
        ("named", ACTOR),
    ),
    "no name": argument(("named", ":")),
    "unknown kind": argument(("code", b"\x00")),
    "cyclic": argument(("tuple", [[2]])),
    "shared until it explodes": argument(("frozenset", [[3]]), *(("tuple", [[n + 4], [n + 4]]) for n in range(60))),
}

SAMPLE = ["partial of os.system", "inner Props over a partial", "foreign object", "pickle in flykka"]


@pytest.fixture
def harmful_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a module that creates a file when it is imported or called."""
    (tmp_path / "harm_of_traces.py").write_text(HARM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def spawned_trace(path: Path, nodes: Nodes) -> Path:
    graph = msgpack.packb([nodes, [[0]]])
    refs, rows = [["/user", 1], ["/user/a", 1]], [[0, SPAWNED, 2, 0, 1, 0, "a:A", graph]]
    chunk = msgpack.packb([refs, [], rows, []])
    path.write_bytes(b"".join([header("harmful", 1), block([chunk]), end({})]))
    return path


def ring_trace(path: Path, nodes: Nodes) -> Path:
    """Write a trace that begins while an actor with valid Props is alive; its instance is the first of these nodes."""
    place = len(nodes)
    sound = [("props", [[place + 1], [], [], "default", None]), ("named", ACTOR), ("dict", [["instance", [0]]])]
    graph = msgpack.packb([[*nodes, *sound], [[place], [place + 2]]])
    ring = {"limit": 1, "not_kept": 1, "begins_at": 2}
    rows = [["/user/a", 1, ["/user", 1], "a:A", None, graph, None]]
    path.write_bytes(b"".join([header("harmful", 1, ring=ring), snapshots(rows), end({})]))
    return path


def assert_harmless(folder: Path, loaded: set[str]) -> None:
    assert not (folder / "harm").exists()
    assert not any(name.partition(".")[0] == "harm_of_traces" for name in set(sys.modules) - loaded)


def refusals(path: Path) -> list[str]:
    try:
        result = Replayer().replay(path)
    except ForeignModuleError as refusal:
        return [str(refusal)]
    return list(result.boundary) if result.is_empty else []


@pytest.mark.parametrize("write", [spawned_trace, ring_trace])
@pytest.mark.parametrize("gadget", GADGETS.values(), ids=GADGETS)
def test_replay_refuses_a_gadget(harmful_folder: Path, gadget: Nodes, write: Callable[[Path, Nodes], Path]) -> None:
    path, loaded = write(harmful_folder / "foreign.trace", gadget), set(sys.modules)

    (refused,) = refusals(path)
    assert refused.startswith("/user/a: ") or "add --import harm_of_traces" in refused
    assert "'life'" not in refused, "the whole state was read"
    assert_harmless(harmful_folder, loaded)


@pytest.mark.parametrize("gadget", GADGETS.values(), ids=GADGETS)
def test_props_with_a_gadget_are_not_resolved(harmful_folder: Path, gadget: Nodes) -> None:
    graph, loaded = msgpack.packb([gadget, [[0]]]), set(sys.modules)
    spawned = Spawned(sequence=1, now_ms=0, ref=Ref("/user/a", 1), parent=Ref("/user", 1), actor="a:A", props=graph)

    with pytest.raises((UnresolvedPropsError, ForeignModuleError)):
        PropsResolver().props_of(spawned, Ref)

    assert_harmless(harmful_folder, loaded)


COMMANDS = [
    ["replay"],
    ["debug"],
    ["whatif", "--at", "2"],
    ["why", "--trace"],
    ["shrink"],
    *(["trace", each] for each in ("show", "stats", "story", "diagram", "check")),
]


@pytest.mark.parametrize("write", [spawned_trace, ring_trace])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_from_a_trace_have_no_side_effects(
    harmful_folder: Path, words: list[str], write: Callable[[Path, Nodes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("actors\nstate\n"))
    loaded = set(sys.modules)

    codes = {main([*words, str(write(harmful_folder / f"{name[:5]}.trace", GADGETS[name]))]) for name in SAMPLE}

    assert codes <= {0, 1, 2}
    assert_harmless(harmful_folder, loaded)


def test_replay_prints_the_missing_import_option(harmful_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spawned_trace(harmful_folder / "foreign.trace", GADGETS["foreign class"])

    assert main(["replay", str(path)]) == 2

    assert "add --import harm_of_traces" in capsys.readouterr().err


def test_modules_passed_to_a_replay_are_imported(harmful_folder: Path) -> None:
    path = spawned_trace(harmful_folder / "own.trace", argument(("named", "trusted_of_traces:answer")))
    (harmful_folder / "trusted_of_traces.py").write_text("def answer(): return 42\n")

    result = Replayer(modules=["trusted_of_traces"]).replay(path)

    assert result.boundary == ()
    assert "trusted_of_traces" in sys.modules
    del sys.modules["trusted_of_traces"]


def test_a_replay_does_not_access_checkpoint_storage(harmful_folder: Path) -> None:
    path = spawned_trace(
        harmful_folder / "job.trace", argument(("object", ["checkpoint_storage.plain", [["_directory", "."]]]))
    )

    engine = Replayer().engine(path)
    engine.run()

    (cell,) = [cell for cell in engine.system.cells.living() if cell.ref.path == "/user/a"]
    assert [type(each) for each in cell.props.args] == [Recorded]


def test_classes_in_state_packages_have_no_external_effects() -> None:
    """A trace may create any class in the packages for state, with any attributes. None of these classes has side
    effects.
    """
    for path in sorted(ROOT.glob("actors/**/*.py")):
        module = ".".join(("flykka", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        if is_own(module):
            assert not imports_of(path) & OUTSIDE, f"{module}: see `_REACHING_OUTSIDE` in runtime/replay/recordable.py"


OUTSIDE = {"ctypes", "fsspec", "importlib", "os", "pathlib", "pickle", "shutil", "socket", "subprocess", "tempfile"}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found
