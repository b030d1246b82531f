"""Decides what a trace may name. A trace may come from anywhere, so nothing is imported or called by its word alone.

Modules are those of flykka's own actors, and those that the caller has passed. Of flykka's own, classes are declared as
recordable by what they are (actors, enums, declared messages and values) or by where they live: in the packages of
actors' state, which reach nothing outside. Of a passed module all classes and functions may be named. A module that is
loaded anyway, and was not passed, gives its actors, enums and declared values: these were written to be recorded.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from enum import Enum
from importlib import import_module
from types import FunctionType

from flykka.messages.wire.message import Value, is_declared
from flykka.runtime.actor import Actor
from flykka.runtime.errors import ForeignModuleError, UnresolvedPropsError

_OWN = ("flykka.actors", "flykka.messages", "flykka.runtime")
_REACHING_OUTSIDE = (
    "flykka.actors.checkpoint_storage",
    "flykka.actors.failure_enrichers",
    "flykka.actors.high_availability",
    "flykka.actors.ownership",
    "flykka.runtime.testing",
)
"""Packages of these whose objects reach files, other processes or plugins: a replay has stand-ins for them."""

STATE = (
    "flykka.actors",
    "flykka.runtime.leader_session",
    "flykka.runtime.patterns.backoff_supervisor",
    "flykka.runtime.patterns.fsm",
    "flykka.runtime.repeated_log",
    "flykka.runtime.supervision",
    "flykka.runtime.time.backoff",
)
"""Packages whose classes are parts of actors' state and arguments."""

_PURE = ("flykka.actors.machines", "flykka.runtime.supervision")
"""Packages whose functions may be named too: by an import contract machines reach no clock, file, process or thread."""

_BUILTINS = frozenset({"bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple"})

Named = type | FunctionType


def is_own(module: str) -> bool:
    """Tell whether a module is one of flykka's that a trace may name."""
    return any(_is_within(module, each) for each in _OWN) and not any(
        _is_within(module, each) for each in _REACHING_OUTSIDE
    )


class RecordableNames:
    """Finds classes and functions by their "module:Qualname".

    Args:
        modules: the names of modules that the caller trusts; they are imported when a trace names them.
    """

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self._modules = frozenset(modules)

    def find(self, name: str) -> Named:
        """The class or function.

        Raises:
            ForeignModuleError: it may be there, in a module that the caller has not passed.
            UnresolvedPropsError: there is none that a trace may name.
        """
        module_name, _, qualname = name.partition(":")
        if module_name == "builtins":
            return _of_builtins(qualname)
        if "<" in qualname:
            raise UnresolvedPropsError(f"{name} was defined within a function, where no one else finds it")
        if not all(part.isidentifier() for part in (*module_name.split("."), *qualname.split("."))):
            raise UnresolvedPropsError(f"{name!r} is not the name of a class or function")
        is_passed = module_name in self._modules
        if not is_passed:
            self._check_module(module_name, name)
        found = _member(module_name, qualname)
        if not (is_passed or _is_recordable(found, module_name)):
            if is_own(module_name):
                raise UnresolvedPropsError(f"{name} is no part of an actor's state or arguments: no trace may name it")
            raise ForeignModuleError(module_name, name)
        return found

    def _check_module(self, module_name: str, name: str) -> None:
        package = module_name.partition(".")[0]
        if package in sys.stdlib_module_names:
            raise UnresolvedPropsError(
                f"{name} is of Python's own library, of which nothing is called by the word of a trace"
            )
        if package == "flykka" and not is_own(module_name):
            raise UnresolvedPropsError(f"{name} reaches outside an actor: no trace may name it")
        if package != "flykka" and module_name not in sys.modules:
            raise ForeignModuleError(module_name, name)


def _of_builtins(name: str) -> type:
    found = getattr(builtins, name, None) if name.isidentifier() else None
    if isinstance(found, type) and (name in _BUILTINS or issubclass(found, Exception)):
        return found
    raise UnresolvedPropsError(f"builtins:{name} is of Python's own library: no trace may name it")


def _member(module_name: str, qualname: str) -> Named:
    """The class or function that is defined there: not one that is only imported there, nor a part of an object."""
    try:
        module = import_module(module_name)
    except ImportError as missing:
        raise UnresolvedPropsError(f"{module_name} cannot be imported here ({missing})") from None
    first, *rest = qualname.split(".")
    # Not by `getattr`, which runs the code of modules and classes that make their attributes when asked.
    found: object = vars(module).get(first)
    for part in rest:
        found = vars(found).get(part) if isinstance(found, type) else None
    if isinstance(found, Named) and (found.__module__, found.__qualname__) == (module_name, qualname):
        return found
    if found is not None:
        raise UnresolvedPropsError(f"{module_name} does not define {qualname!r}: it has it from elsewhere")
    if module_name == "__main__":
        raise UnresolvedPropsError(
            f"{qualname} was declared in the script that ran, which is not this one: have it in a module"
        )
    raise UnresolvedPropsError(f"{module_name} has no class or function {qualname!r} any more")


def _is_recordable(found: Named, module_name: str) -> bool:
    if isinstance(found, FunctionType):
        return any(_is_within(module_name, each) for each in _PURE)
    if issubclass(found, Value):
        return is_declared(found)
    return issubclass(found, Actor | Enum) or any(_is_within(module_name, each) for each in STATE)


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
