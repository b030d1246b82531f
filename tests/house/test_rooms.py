"""Who may know whom: what the import contracts in setup.cfg cannot say."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import HOUSE, ROOMS, Source, sources

IN_THE_ROOMS = [source for source in sources() if source.room in ROOMS]
VAGUE = {"common", "core", "helper", "helpers", "misc", "shared", "util", "utils"}


@pytest.mark.parametrize("room", ROOMS)
def test_the_front_door_has_a_link_to_each_room(room: str) -> None:
    link = HOUSE / "flykka" / room

    assert link.is_symlink()
    assert link.readlink() == Path("..") / room


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_refuses_to_be_imported_under_a_name_of_its_own(room: str) -> None:
    spec = importlib.util.spec_from_file_location(room, HOUSE / room / "__init__.py")
    assert spec is not None
    assert spec.loader is not None

    with pytest.raises(ImportError, match=f"import this room as flykka.{room}"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("source", sources(), ids=str)
def test_rooms_are_imported_by_their_full_names(source: Source) -> None:
    wrong = [
        f"{source}:{line} {name}"
        for line, name in source.imports()
        if name.startswith(".") or name.split(".")[0] in ROOMS
    ]

    assert wrong == []


@pytest.mark.parametrize("source", IN_THE_ROOMS, ids=str)
def test_no_room_knows_the_front_door(source: Source) -> None:
    wrong = [
        f"{source}:{line} {name}"
        for line, name in source.imports()
        if name.split(".")[0] == "flykka" and not any(f"{name}.".startswith(f"flykka.{room}.") for room in ROOMS)
    ]

    assert wrong == []


@pytest.mark.parametrize("source", [source for source in sources() if source.room != "spark_bridge"], ids=str)
def test_only_the_way_to_spark_speaks_to_the_jvm(source: Source) -> None:
    spoken = [f"{source}:{line} {name}" for line, name in source.imports() if name.split(".")[0] == "py4j"]

    assert spoken == []


@pytest.mark.parametrize("source", sources(), ids=str)
def test_every_module_says_what_it_is_for_and_has_a_name_that_says_so_too(source: Source) -> None:
    docstring = source.text.lstrip().startswith(('"""', 'r"""'))

    assert docstring, f"{source} has no docstring"
    assert VAGUE.isdisjoint(source.path.with_suffix("").parts)


IMPORT_WITHOUT = """
import importlib, pkgutil, sys
for name in {packages!r}:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + ".") if {deep} else ():
        importlib.import_module(module.name)
print(sorted({libraries!r} & set(sys.modules)))
"""


COMMANDS_ON_TRACES = (
    "debug",
    "replay",
    "shrink",
    "simulate",
    "trace",
    "trace_check",
    "trace_diff",
    "trace_views",
    "whatif",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("packages", "deep", "libraries"),
    [
        (["flykka"], False, {"pyspark", "py4j"}),
        (["flykka.messages", "flykka.runtime", "flykka.actors"], True, {"pyspark", "py4j"}),
        (["flykka.replay", "flykka.simulation", "flykka.monitors", "flykka.traces"], True, {"pyspark", "py4j"}),
        ([f"flykka.cli.{name}" for name in COMMANDS_ON_TRACES], False, {"pyspark", "py4j"}),
        (["flykka.messages"], True, {"pyspark", "py4j", "pykka"}),
    ],
)
def test_what_needs_no_spark_is_imported_without_it(packages: list[str], deep: bool, libraries: set[str]) -> None:
    script = IMPORT_WITHOUT.format(packages=packages, deep=deep, libraries=libraries)

    run = subprocess.run([sys.executable, "-c", script], cwd=HOUSE, capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout, run.stderr) == (0, "[]\n", "")
