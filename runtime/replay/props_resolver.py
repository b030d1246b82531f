"""Resolves the Props of actors that were spawned from outside, from what the trace tells of theirs.

A trace may come from anywhere. An actor is made by a class that derives from `Actor`, or by a function that says it
returns one; in its arguments stand plain values, declared values, members of enums, dataclasses, and functions and
classes as they are. Which of these a trace may name is decided by `recordable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any, get_type_hints

from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.ref import Ref, Resolve
from flykka.runtime.actor import Actor
from flykka.runtime.errors import ForeignModuleError, UnresolvedPropsError
from flykka.runtime.props import Props
from flykka.runtime.replay.graph_reader import GraphReader
from flykka.runtime.replay.recordable import RecordableNames

if TYPE_CHECKING:
    from flykka.runtime.trace.records import Spawned


REFUSALS = (
    UnresolvedPropsError,
    CodecError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""Errors of reading a graph where something in it is not to be had here."""


class PropsResolver:
    """Finds the Props of actors.

    Args:
        actors: Props by path, which come before what the trace tells.
        stand_ins: live objects by the name of the class, in the trace, of what could not be written to it.
        outside: why actors of a class are never made again, by its name in a trace.
        modules: the names of modules, besides flykka's own, whose classes and functions the trace may name.
    """

    def __init__(
        self,
        actors: Mapping[str, Props] | None = None,
        stand_ins: Mapping[str, object] | None = None,
        outside: Mapping[str, str] | None = None,
        modules: Iterable[str] = (),
    ):
        self._actors = dict(actors or {})
        self._stand_ins = dict(stand_ins or {})
        self._outside = dict(outside or {})
        self._names = RecordableNames(modules)

    def props_of(self, spawned: Spawned, resolve: Resolve) -> Props:
        """The Props of an actor that was spawned from outside any turn.

        Raises:
            ForeignModuleError: they name a module that was not passed.
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
        except (UnresolvedPropsError, ForeignModuleError):
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
        self.check_factory(props.factory)
        return props

    def check_factory(self, factory: object) -> None:
        """Refuse what makes no actor. Raises `UnresolvedPropsError`."""
        is_actor = isinstance(factory, type) and issubclass(factory, Actor)
        if not is_actor and not (isinstance(factory, FunctionType) and _returns_actor(factory)):
            name = getattr(factory, "__qualname__", repr(factory))
            raise UnresolvedPropsError(f"{name} is neither an Actor nor a function that says it returns one")

    def stand_in_for(self, name: str) -> object | None:
        """The object that the caller has given for those of a class, if any."""
        return self._stand_ins.get(name)

    def stand_in(self, name: str) -> object:
        """The stand-in for an object without a copy in the trace. Raises `UnresolvedPropsError` where nothing does."""
        if name not in self._stand_ins:
            raise UnresolvedPropsError(
                f"it was given a {_short(name)}, of which a trace has no copy: stand_ins={{{name!r}: ...}}"
            )
        return self._stand_ins[name]

    def is_stand_in(self, item: object) -> bool:
        """Tell whether an object is one that the caller has given."""
        return any(item is each for each in self._stand_ins.values())

    def member(self, name: str, member: str) -> Enum:
        """A member of an enum. Raises as `find`."""
        kind = self.find(name)
        if not (isinstance(kind, type) and issubclass(kind, Enum) and member in kind.__members__):
            raise UnresolvedPropsError(f"there is no {_short(name)}.{member}")
        return kind.__members__[member]

    def find(self, name: str) -> Any:
        """A class or function that a trace may name, or what stands for it. Raises as `RecordableNames.find`."""
        if name in self._stand_ins:
            return self._stand_ins[name]
        if name in self._outside:
            raise UnresolvedPropsError(self._outside[name])
        return self._names.find(name)


def _short(name: str) -> str:
    return name.rpartition(":")[2]


def _returns_actor(function: FunctionType) -> bool:
    try:
        returned = get_type_hints(function).get("return")
    except (NameError, TypeError):
        return False
    return isinstance(returned, type) and issubclass(returned, Actor)
