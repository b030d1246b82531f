"""The public names of a package, which are loaded when first used.

The imports in the package's module `public_names` are the only list of them: type checkers follow these imports, and
this module reads them without executing them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from types import SimpleNamespace
from typing import Any


@cache
def modules_of(package: str) -> Mapping[str, str]:
    modules: dict[str, str] = {}

    def note(module: str, variables: object, _: object, names: tuple[str, ...], level: int) -> SimpleNamespace:
        modules.update(dict.fromkeys(names, module))
        return SimpleNamespace(**dict.fromkeys(names))

    listing = f"{package}.public_names"
    # The finder of pytest, which would come first, is not used: it rewrites flykka's modules, and its loader returns
    # no code.
    spec = PathFinder.find_spec(listing, sys.modules[package].__path__)
    assert spec is not None, "the package has no listing module"
    loader: Any = spec.loader
    exec(loader.get_code(listing), {"__builtins__": {"__import__": note}})
    return modules


def load(package: str, name: str) -> Any:
    """Load a public name and cache it in the package; for `__all__`, return all names. Raises `AttributeError`."""
    modules = modules_of(package)
    if name == "__all__":
        return sorted(modules)
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(import_module(modules[name]), name)
    setattr(sys.modules[package], name, value)
    return value
