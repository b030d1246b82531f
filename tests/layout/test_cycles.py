"""Folders of one package depend on each other in one direction."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.layout.sources import PRODUCT, Source, sources

# This test reads every file of the project, so `make quick` leaves it to `make check`.
pytestmark = pytest.mark.slow


def modules() -> dict[str, Source]:
    found = {}
    for source in sources():
        if source.package in PRODUCT:
            parts = source.path.with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join(parts if parts[0] == "flykka" else ("flykka", *parts))] = source
    return found


def imports(node: ast.AST) -> Iterator[tuple[str, ...]]:
    """Yield the names of each import, the more exact name first, without imports for type checking."""
    match node:
        case ast.If(test=test, orelse=orelse) if "TYPE_CHECKING" in ast.unparse(test):
            below: Iterable[ast.AST] = orelse
        case ast.Import(names=names):
            yield from ((name.name,) for name in names)
            return
        case ast.ImportFrom(module=str(module), names=names):
            yield from ((f"{module}.{name.name}", module) for name in names)
            return
        case _:
            below = ast.iter_child_nodes(node)
    for child in below:
        yield from imports(child)


def dependencies() -> dict[tuple[str, ...], dict[str, set[str]]]:
    """Return for each folder the dependencies among the folders that it contains."""
    known = modules()
    found: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for user in known.values():
        for names in imports(user.tree):
            used = next((known[name] for name in names if name in known), user)
            here, there = user.path.parts[:-1], used.path.parts[:-1]
            depth = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), 0)
            if depth:
                found[here[:depth]][here[depth]].add(there[depth])
    return found


def cycle_of(folders: Mapping[str, set[str]]) -> list[str]:
    """Return the folders of one cycle; empty if there is no cycle."""
    try:
        TopologicalSorter(folders).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.slow
def test_folders_of_a_package_have_no_import_cycles() -> None:
    cycles = {"/".join(base): cycle_of(folders) for base, folders in dependencies().items()}

    assert len(cycles) > 5
    assert {base: cycle for base, cycle in cycles.items() if cycle} == {}


def test_an_import_cycle_is_detected() -> None:
    assert cycle_of({"rows": {"state"}, "state": {"program"}, "program": {"rows"}, "attempt": {"rows"}}) != []
    assert cycle_of({"rows": {"state"}, "state": {"program"}, "attempt": {"rows"}}) == []


def test_imports_for_type_checking_are_ignored() -> None:
    tree = ast.parse("if TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    from c import d\n")

    assert list(imports(tree)) == [("b",), ("c.d", "c")]
