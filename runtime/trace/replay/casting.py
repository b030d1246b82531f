"""Who plays whom: Props of the actors that were spawned from outside, made of what the trace tells of theirs.

A trace may come from anywhere. So what it names is imported and nothing else: a class that derives from `Actor`, or a
function that says it returns one, is what makes an actor; in its arguments stand plain values, declared values, members
of enums, dataclasses, and functions and classes as they are. Nothing else is called. What belongs to Python's own
library is never taken by name. Importing a module runs the module's own code, as any import does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, get_type_hints

from flykka.messages.wire.ref import Ref, Resolve
from flykka.runtime.actor import Actor
from flykka.runtime.errors import KernelError
from flykka.runtime.props import Props
from flykka.runtime.trace.recipes import Choice, Instance, Named, Opaque, Recipe

if TYPE_CHECKING:
    from flykka.runtime.trace.records import Spawned


class CastingError(KernelError):
    """An actor of a trace cannot be made here; the text says why."""


class Casting:
    """Finds the Props of actors.

    Args:
        actors: Props by path, which come before what the trace tells.
        stand_ins: live objects by the "module:Qualname" of the class of what could not be written to the trace.
        outside: why actors of a class are never made again, by its "module:Qualname".
    """

    def __init__(
        self,
        actors: Mapping[str, Props] | None = None,
        stand_ins: Mapping[str, object] | None = None,
        outside: Mapping[str, str] | None = None,
    ):
        self._actors = dict(actors or {})
        self._stand_ins = dict(stand_ins or {})
        self._outside = dict(outside or {})

    def props_of(self, spawned: Spawned, resolve: Resolve) -> Props:
        """The Props of an actor that was spawned from outside any turn. Raises `CastingError` where there are none."""
        given = self.given(spawned.ref)
        if given is not None:
            return given
        if spawned.actor in self._outside:
            raise CastingError(self._outside[spawned.actor])
        if spawned.recipe is None:
            raise CastingError(f"the trace does not tell how {spawned.actor or 'it'} was made")
        return self._made(spawned.recipe, resolve)

    def given(self, ref: Ref) -> Props | None:
        """The Props that the caller has given for an actor."""
        return self._actors.get(ref.path)

    def _made(self, recipe: Recipe, resolve: Resolve) -> Props:
        factory = _factory(recipe.factory)
        args = [self._live(argument, resolve) for argument in recipe.arguments]
        kwargs = {name: self._live(argument, resolve) for name, argument in recipe.keywords.items()}
        try:
            props = Props(factory, *args, **kwargs)
            if recipe.dispatcher != props.dispatcher:
                props = props.with_dispatcher(recipe.dispatcher)  # type: ignore[arg-type]  # Checked there.
        except (TypeError, ValueError) as refusal:
            raise CastingError(f"{recipe.factory} cannot be spawned as recorded: {refusal}") from None
        return props if recipe.stash_capacity is None else props.with_stash_capacity(recipe.stash_capacity)

    def _live(self, item: object, resolve: Resolve) -> Any:
        match item:
            case Opaque(type_name=name):
                return self.stand_in(name)
            case Named(name=name):
                return self._stand_ins.get(name) or named(name)
            case Choice(enum=name, member=member):
                return _member(name, member)
            case Instance(class_name=name, fields=told):
                return self._instance(name, {key: self._live(part, resolve) for key, part in told.items()})
            case Ref(path=path, incarnation=incarnation):
                return resolve(path, incarnation)
            case list() | tuple() | set() | frozenset():
                return type(item)(self._live(part, resolve) for part in item)
            case dict():
                return {self._live(key, resolve): self._live(part, resolve) for key, part in item.items()}
            case _:
                return item

    def stand_in_for(self, name: str) -> object | None:
        """What the caller has given for objects of a class, if anything."""
        return self._stand_ins.get(name)

    def stand_in(self, name: str) -> object:
        """What stands for an object that the trace has no copy of. Raises `CastingError` where nothing does."""
        if name not in self._stand_ins:
            raise CastingError(
                f"it was given a {_plain(name)}, of which a trace has no copy: stand_ins={{{name!r}: ...}}"
            )
        return self._stand_ins[name]

    def _instance(self, name: str, told: dict[str, object]) -> object:
        if name in self._stand_ins:
            return self._stand_ins[name]
        kind = named(name)
        if not (isinstance(kind, type) and is_dataclass(kind)):
            raise CastingError(f"it was given a {_plain(name)}, which is no dataclass any more")
        try:
            return kind(**told)
        except (TypeError, ValueError) as refusal:
            raise CastingError(f"the {_plain(name)} that it was given cannot be made here: {refusal}") from None


def _factory(name: str) -> Callable[..., Actor]:
    factory = named(name)
    if isinstance(factory, type) and issubclass(factory, Actor):
        return factory
    if isinstance(factory, FunctionType) and _returns_actor(factory):
        return factory
    raise CastingError(f"{name} is neither an Actor nor a function that says it returns one")


def _returns_actor(function: FunctionType) -> bool:
    try:
        returned = get_type_hints(function).get("return")
    except (NameError, TypeError):
        return False
    return isinstance(returned, type) and issubclass(returned, Actor)


def _member(name: str, member: str) -> Enum:
    kind = named(name)
    if not (isinstance(kind, type) and issubclass(kind, Enum) and member in kind.__members__):
        raise CastingError(f"there is no {_plain(name)}.{member}")
    return kind[member]


def named(name: str) -> Any:
    """A class or function of a module."""
    module_name, _, qualname = name.partition(":")
    if module_name.partition(".")[0] in sys.stdlib_module_names:
        raise CastingError(f"{name} is of Python's own library, of which nothing is called by the word of a trace")
    if "<" in qualname:
        raise CastingError(f"{name} was defined within a function, where no one else finds it")
    try:
        found: Any = import_module(module_name)
    except ImportError as missing:
        where = "replay it in the folder of that module, or name the folder in PYTHONPATH"
        raise CastingError(f"{module_name} cannot be imported here ({missing}): {where}") from None
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type | FunctionType):
        if module_name == "__main__":
            raise CastingError(
                f"{qualname} was declared in the script that ran, which is not this one: have it in a module"
            )
        raise CastingError(f"{module_name} has no class or function {qualname!r} any more")
    return found


def _plain(name: str) -> str:
    return name.rpartition(":")[2]
