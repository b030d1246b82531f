"""Everything that users call has a docstring: the names that flykka exports, and their methods."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

import pytest

PUBLIC = ("flykka", "flykka.connectors", "flykka.runtime", "flykka.runtime.testing", "flykka.state")


def exported(package: str) -> Iterator[tuple[str, object]]:
    """Yield the exported classes and functions of a package, with the names by which users know them."""
    module = import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield f"{package}.{name}", value


def undocumented(name: str, value: object) -> Iterator[str]:
    if not inspect.getdoc(value):
        yield name
    if not inspect.isclass(value):
        return
    for each, member in inspect.getmembers(value):
        called = getattr(member, "__func__", member)
        is_ours = getattr(called, "__module__", None) or getattr(getattr(called, "fget", None), "__module__", "") or ""
        if each.startswith("_") or not is_ours.startswith("flykka"):
            continue
        if (inspect.isfunction(called) or isinstance(called, property)) and not inspect.getdoc(called):
            yield f"{name}.{each}"


@pytest.mark.parametrize("package", PUBLIC)
def test_exported_objects_are_documented(package: str) -> None:
    missing = [each for name, value in exported(package) for each in undocumented(name, value)]

    assert missing == []
