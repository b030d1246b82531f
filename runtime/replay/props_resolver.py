"""Resolves the Props of actors that were spawned from outside, from what the trace tells of theirs.

A trace may come from anywhere. So what it names is imported and nothing else: a class that derives from `Actor`, or a
function that says it returns one, is what makes an actor; in its arguments stand plain values, declared values, members
of enums, dataclasses, and functions and classes as they are. Nothing else is called. What belongs to Python's own
library is never taken by name, but for the types that are always there. Importing a module runs the module's own code,
as any import does.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, get_type_hints

from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.ref import Ref, Resolve
from flykka.runtime.actor import Actor
from flykka.runtime.errors import KernelError
from flykka.runtime.props import Props
from flykka.runtime.replay.graph_reader import GraphReader

if TYPE_CHECKING:
    from flykka.runtime.trace.records import Spawned


class UnresolvedPropsError(KernelError):
    """An actor of a trace cannot be made here; the text says why."""


REFUSALS = (UnresolvedPropsError, CodecError, LookupError, TypeError, ValueError, AttributeError)
"""Errors of reading a graph where something in it is not to be had here."""


class PropsResolver:
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
        """The Props of an actor that was spawned from outside any turn.

        Raises:
            UnresolvedPropsError: there are none.
        """
        given = self.given(spawned.ref)
        if given is not None:
            return given
        if spawned.actor in self._outside:
            raise UnresolvedPropsError(self._outside[spawned.actor])
        if spawned.props is None:
            raise UnresolvedPropsError(f"the trace does not tell how {spawned.actor or 'it'} was made")
        try:
            return self.checked(GraphReader(spawned.props, self, resolve).read(0))
        except UnresolvedPropsError:
            raise
        except REFUSALS as refusal:
            raise UnresolvedPropsError(f"{spawned.actor} cannot be spawned as recorded: {refusal}") from None

    def given(self, ref: Ref) -> Props | None:
        """The Props that the caller has given for an actor."""
        return self._actors.get(ref.path)

    def checked(self, props: object) -> Props:
        """Props that make an actor. Raises `UnresolvedPropsError` for anything else."""
        if not isinstance(props, Props):
            raise UnresolvedPropsError(f"how it was made is told by Props, not by a {type(props).__name__}")
        factory = props.factory
        is_actor = isinstance(factory, type) and issubclass(factory, Actor)
        if not is_actor and not (isinstance(factory, FunctionType) and _returns_actor(factory)):
            name = getattr(factory, "__qualname__", repr(factory))
            raise UnresolvedPropsError(f"{name} is neither an Actor nor a function that says it returns one")
        return props

    def stand_in_for(self, name: str) -> object | None:
        """The object that the caller has given for those of a class, if any."""
        return self._stand_ins.get(name)

    def stand_in(self, name: str) -> object:
        """The stand-in for an object without a copy in the trace. Raises `UnresolvedPropsError` where nothing does."""
        if name not in self._stand_ins:
            plain = name.rpartition(":")[2]
            raise UnresolvedPropsError(
                f"it was given a {plain}, of which a trace has no copy: stand_ins={{{name!r}: ...}}"
            )
        return self._stand_ins[name]

    def member(self, name: str, member: str) -> Enum:
        """A member of an enum. Raises as `find`."""
        kind = self.find(name)
        if not (isinstance(kind, type) and issubclass(kind, Enum) and member in kind.__members__):
            raise UnresolvedPropsError(f"there is no {name.rpartition(':')[2]}.{member}")
        return kind[member]

    def find(self, name: str) -> Any:
        """A class or function of a module, or what stands for it. Raises `UnresolvedPropsError` where there is none."""
        if name in self._stand_ins:
            return self._stand_ins[name]
        module_name, _, qualname = name.partition(":")
        if module_name == "builtins" and isinstance(getattr(builtins, qualname, None), type):
            return getattr(builtins, qualname)
        if module_name.partition(".")[0] in sys.stdlib_module_names:
            raise UnresolvedPropsError(
                f"{name} is of Python's own library, of which nothing is called by the word of a trace"
            )
        if "<" in qualname:
            raise UnresolvedPropsError(f"{name} was defined within a function, where no one else finds it")
        try:
            found: Any = import_module(module_name)
        except ImportError as missing:
            where = "replay it in the folder of that module, or name the folder in PYTHONPATH"
            raise UnresolvedPropsError(f"{module_name} cannot be imported here ({missing}): {where}") from None
        for part in qualname.split("."):
            found = getattr(found, part, None)
        if isinstance(found, type | FunctionType):
            return found
        if module_name == "__main__":
            raise UnresolvedPropsError(
                f"{qualname} was declared in the script that ran, which is not this one: have it in a module"
            )
        raise UnresolvedPropsError(f"{module_name} has no class or function {qualname!r} any more")


def _returns_actor(function: FunctionType) -> bool:
    try:
        returned = get_type_hints(function).get("return")
    except (NameError, TypeError):
        return False
    return isinstance(returned, type) and issubclass(returned, Actor)
