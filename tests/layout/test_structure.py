"""`scripts/structure.py`: which imports, cycles and names are counted."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.layout.sources import script


@pytest.fixture(scope="module")
def structure() -> ModuleType:
    return script("structure")


def test_imports_for_types_and_in_functions_count(structure: Any) -> None:
    user = "if TYPE_CHECKING:\n    from p import b\ndef f():\n    from p.c import name\n"
    modules = {name: structure.Module(name, text) for name, text in (("p.a", user), ("p.b", ""), ("p.c", ""))}

    assert structure.imports_between(modules) == {"p.a": {"p.b", "p.c"}, "p.b": set(), "p.c": set()}


def test_each_cycle_is_counted_once_without_modules_that_only_import_it(structure: Any) -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"d", "b"}, "d": {"b"}, "e": {"f"}, "f": {"e"}}

    assert structure.circles(edges) == [["b", "c", "d"], ["e", "f"]]


def test_a_pair_of_folders_may_import_each_other_by_different_modules(structure: Any) -> None:
    edges = {"p.rows.a": {"p.state.a"}, "p.state.b": {"p.rows.b"}, "p.sql.a": {"p.rows.a"}, "q": {"p.sql.a"}}

    assert structure.mutual_folders(edges, "p") == [("rows", "state")]


def test_a_module_with_two_importers_has_no_sole_importer(structure: Any) -> None:
    assert structure.sole_importers({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"b": "a"}


@pytest.mark.slow
def test_only_the_kernel_and_the_api_have_import_cycles(structure: Any) -> None:
    circles = structure.circles(structure.imports_between(structure.read_modules()))
    elsewhere = [each for each in circles if not each[0].startswith(("flykka.api.", "flykka.runtime."))]

    assert elsewhere == []
    assert len([each for each in circles if each[0].startswith("flykka.runtime.")]) == 1
