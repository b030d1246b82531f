"""Decides what a trace may name. A trace may come from anywhere, so it must not cause any import or call by itself.

A trace may name the modules of flykka's own actors, and those that the caller has passed. In flykka's modules, classes
are recordable by their kind (actors, enums, tagged classes) or by their package: the packages of actors' state have no
access to external resources. They are named by their tag, or by "flykka." and their own name. In a passed module all
classes and functions may be named. In any other loaded module, only actors, enums and tagged classes may be named,
because they were written to be recorded.
"""

from __future__ import annotations

import builtins
import pkgutil
import sys
from collections.abc import Iterable
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from types import FunctionType, ModuleType

from flykka.messages.wire.message import Value
from flykka.messages.wire.tags import Declared, class_of, full_name, name_in_trace, tag_of
from flykka.runtime.actor import Actor
from flykka.runtime.errors import ForeignModuleError, UnknownTagError, UnresolvedPropsError

_OWN = ("flykka.actors", "flykka.messages", "flykka.runtime")
_REACHING_OUTSIDE = (
    "flykka.actors.checkpoint_storage",
    "flykka.actors.failure_enrichers",
    "flykka.actors.high_availability",
    "flykka.actors.ownership",
    "flykka.runtime.testing",
)
"""The packages whose objects access files, other processes or plugins. A replay has stand-ins for these objects."""

STATE = (
    "flykka.actors",
    "flykka.runtime.leader_session",
    "flykka.runtime.patterns.backoff_supervisor",
    "flykka.runtime.patterns.fsm",
    "flykka.runtime.repeated_log",
    "flykka.runtime.supervision",
    "flykka.runtime.time.backoff",
)
"""The packages whose classes are parts of actors' state and arguments."""

_PURE = ("flykka.actors.machines", "flykka.runtime.supervision")
"""The packages whose functions may be named too: an import contract keeps clocks, files, processes and threads out."""

_BUILTINS = frozenset({"bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple"})


def is_own(module: str) -> bool:
    return any(_is_within(module, each) for each in _OWN) and not any(
        _is_within(module, each) for each in _REACHING_OUTSIDE
    )


@cache
def own_names() -> dict[str, list[Declared]]:
    """Return the classes and functions of flykka's own modules by their names in a trace, which several may share."""
    names: dict[str, list[Declared]] = {}
    for package in _OWN:
        for info in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            for item in _defined_in(import_module(info.name)) if is_own(info.name) else ():
                if _is_recordable(item, info.name):
                    names.setdefault(name_in_trace(item), []).append(item)
    return names


class RecordableNames:
    """Finds classes and functions by their names in a trace.

    Args:
        modules: the names of modules that the caller trusts; they are imported when a trace names them.
    """

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self._modules = frozenset(modules)

    def find(self, name: str) -> Declared:
        """Return the class or function with this name.

        Raises:
            ForeignModuleError: it may exist in a module that the caller has not passed.
            UnknownTagError: no loaded module declares the tag.
            UnresolvedPropsError: there is none that a trace may name.
        """
        module_name, colon, qualname = name.partition(":")
        if "<" in name:
            raise UnresolvedPropsError(f"{name} was defined within a function, where it cannot be looked up")
        if not colon:
            module_name, qualname = full_name(self._tagged(name))
        elif module_name == "builtins":
            return _of_builtins(qualname)
        elif _is_within(module_name, "flykka"):
            raise UnresolvedPropsError(
                f"{name} is one of flykka's own classes, which traces name by tags: no recorder writes it"
            )
        if not all(part.isidentifier() for part in (*module_name.split("."), *qualname.split("."))):
            raise UnresolvedPropsError(f"{name!r} is not the name of a class or function")
        is_passed = module_name in self._modules
        if not is_passed:
            self._check_module(module_name, name)
        member = _member(module_name, qualname)
        if not (is_passed or _is_recordable(member, module_name)):
            raise ForeignModuleError(module_name, name)
        return member

    def _tagged(self, name: str) -> Declared:
        cls = class_of(name)
        if cls is not None:
            return cls
        classes = own_names().get(name) or [each for each in self._given_classes if name_in_trace(each) == name]
        if len(classes) == 1:
            return classes[0]
        if classes:
            raise UnresolvedPropsError(
                f"{name} is the name of {len(classes)} classes, which a trace cannot distinguish"
            )
        if name.startswith("flykka."):
            raise UnresolvedPropsError(f"{name} no longer exists, or a trace may not name it")
        raise UnknownTagError(name)

    @cached_property
    def _given_classes(self) -> list[Declared]:
        modules = (import_module(each) for each in self._modules if _is_within(each, "flykka"))
        return [each for module in modules for each in _defined_in(module)]

    def _check_module(self, module_name: str, name: str) -> None:
        package = module_name.partition(".")[0]
        if package in sys.stdlib_module_names:
            raise UnresolvedPropsError(
                f"{name} belongs to Python's own library, whose functions are not called because a trace names them"
            )
        if package == "flykka" and not is_own(module_name):
            raise UnresolvedPropsError(f"{name} has effects outside the actor: a trace may not name it")
        if module_name not in sys.modules:
            raise ForeignModuleError(module_name, name)


def _defined_in(module: ModuleType) -> Iterable[Declared]:
    defined = (each for each in vars(module).values() if isinstance(each, Declared))
    return dict.fromkeys(each for each in defined if each.__module__ == module.__name__)


def _of_builtins(name: str) -> type:
    builtin = getattr(builtins, name, None) if name.isidentifier() else None
    if isinstance(builtin, type) and (name in _BUILTINS or issubclass(builtin, Exception)):
        return builtin
    raise UnresolvedPropsError(f"builtins:{name} belongs to Python's own library: a trace may not name it")


def _member(module_name: str, qualname: str) -> Declared:
    """Return the class or function defined in this module, not one that is only imported there or part of an object."""
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise UnresolvedPropsError(f"{module_name} cannot be imported here ({error})") from None
    first, *rest = qualname.split(".")
    # `getattr` is not used, because it runs code of modules and classes that compute their attributes.
    member: object = vars(module).get(first)
    for part in rest:
        member = vars(member).get(part) if isinstance(member, type) else None
    if isinstance(member, Declared) and (member.__module__, member.__qualname__) == (module_name, qualname):
        return member
    if member is not None:
        raise UnresolvedPropsError(f"{module_name} does not define {qualname!r}, but imports it")
    if module_name == "__main__":
        raise UnresolvedPropsError(
            f"{qualname} was declared in the recorded script, and this process runs another script: declare"
            " it in a module"
        )
    raise UnresolvedPropsError(f"{module_name} no longer has a class or function {qualname!r}")


def _is_recordable(declared: Declared, module_name: str) -> bool:
    if tag_of(declared):
        return True
    if isinstance(declared, FunctionType):
        return any(_is_within(module_name, each) for each in _PURE)
    if issubclass(declared, Value):
        return False
    return issubclass(declared, Actor | Enum) or any(_is_within(module_name, each) for each in STATE)


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
