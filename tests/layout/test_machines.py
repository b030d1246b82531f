"""Machines may import only messages and the pure parts of the standard library.

The import contracts in setup.cfg list the forbidden modules; this test lists the allowed ones, and forbidden builtins.
"""

from __future__ import annotations

import ast

import pytest

from tests.layout.sources import sources

# This test reads every file of the project, so `make quick` leaves it to `make check`.
pytestmark = pytest.mark.slow

MACHINES = [source for source in sources() if source.is_machine]

PURE = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "dataclasses",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "re",
    "string",
    "struct",
    "types",
    "typing",
    "zlib",
}
OURS = ("flykka.messages.", "flykka.actors.")

IMPURE_CALLS = {"breakpoint", "eval", "exec", "hash", "id", "input", "open", "print"}
"""Calls whose results a replay cannot reproduce. `hash` of a str differs from process to process, and `id` from run to
run.
"""


def test_a_machine_imports_messages_machines_and_the_pure_standard_library() -> None:
    foreign = [
        f"{source}:{line} {name}"
        for source in MACHINES
        for line, name in source.imports
        if name.split(".")[0] not in PURE and not name.startswith(OURS)
    ]

    assert foreign == []


def test_a_machine_does_not_import_its_shell() -> None:
    known = [
        f"{source}:{line} {name}"
        for source in MACHINES
        for line, name in source.imports
        if name.startswith("flykka.actors.")
        and not name.startswith(("flykka.actors.machines.", "flykka.actors.errors."))
    ]

    assert known == []


def test_a_machine_uses_neither_clock_nor_randomness_nor_io() -> None:
    impure = []
    for source in MACHINES:
        for node in ast.walk(source.tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                    impure.append(f"{source}:{node.lineno} {name}()")
                case ast.Attribute(attr="now" | "utcnow" | "today", value=ast.Name(id="datetime" | "date")):
                    impure.append(f"{source}:{node.lineno} {node.attr}")
                case ast.AsyncFunctionDef() | ast.Await() | ast.Global():
                    impure.append(f"{source}:{node.lineno} {type(node).__name__}")

    assert impure == []
