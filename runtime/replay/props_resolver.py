"""Resolves the Props of actors that were spawned from outside, from their description in the trace.

A trace may come from anywhere. An actor is created by a class that derives from `Actor`, or by a function that returns
such a class. Its arguments may be plain values, declared values, members of enums, dataclasses, and functions and
classes themselves. `recordable` decides which of these a trace may name.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from itertools import count
from random import Random
from types import FunctionType, MemberDescriptorType, MethodType
from typing import TYPE_CHECKING, Any, get_type_hints

from flykka.messages.wire.codec import decode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.ref import Ref, Resolve
from flykka.runtime.actor import Actor
from flykka.runtime.errors import ForeignModuleError, UnresolvedPropsError
from flykka.runtime.props import Props
from flykka.runtime.replay.recordable import RecordableNames
from flykka.runtime.trace.state.graph_text import unpacked

if TYPE_CHECKING:
    from flykka.runtime.trace.records import Spawned

_MAX_PARTS = 10_000_000
"""The maximum number of parts of an immutable node, including nested parts, because hashing traverses all of them."""


class GraphReader:
    """Recreates the objects of a graph that `graph_writer` has written. No initialiser is called.

    Args:
        graph: the packed graph.
        resolver: finds classes, functions, and stand-ins for objects that have no copy.
        resolve: creates live refs.
        outside: returns the external object for a kind of node. If None, the graph must contain neither such objects
            nor objects of classes other than dataclasses.
    """

    def __init__(
        self, graph: bytes, resolver: PropsResolver, resolve: Resolve, outside: Callable[[str], object] | None = None
    ) -> None:
        self._nodes, self._items_packed = unpacked(graph)
        self._items_by_place: dict[int, Any] = {}
        self._parts: dict[int, int] = {}
        self._resolver = resolver
        self._resolve = resolve
        self._outside = outside

    def read(self, place: int) -> Any:
        return self._item(self._items_packed[place])

    def _item(self, item: Any) -> Any:
        if not isinstance(item, list):
            return item
        (place,) = item
        if type(place) is not int or place < 0:
            raise TypeError(f"{place!r} is not the index of a node of the graph")
        if place not in self._items_by_place:
            kind, content = self._nodes[place]
            created = self._items_by_place[place] = self._make(place, kind, content)
            if kind not in _MUTABLE:
                self._weigh(place, content)
            return created
        return self._items_by_place[place]

    def _items(self, items: list[Any]) -> list[Any]:
        return [self._item(item) for item in items]

    def _weigh(self, place: int, content: Any) -> None:
        # The size of shared parts may double with each level.
        weight, pending = 1, [content]
        while pending:
            part = pending.pop()
            if isinstance(part, list):
                is_place = len(part) == 1 and type(part[0]) is int
                weight += self._parts.get(part[0], 1) if is_place else 1
                pending += () if is_place else part
        if weight > _MAX_PARTS:
            raise ValueError(f"it has more than {_MAX_PARTS:,} parts, most of them repeated")
        self._parts[place] = weight

    def _make(self, place: int, kind: str, content: Any) -> Any:
        match kind:
            case "tuple" | "frozenset":
                return (tuple if kind == "tuple" else frozenset)(self._items(content))
            case "value":
                return decode(content, self._resolve)
            case "ref":
                return self._resolve(*_address(*content))
            case "enum":
                return self._resolver.member(*content)
            case "named":
                return self._resolver.find(content)
            case "method" if self._outside is not None:
                return self._method(*content)
            case "partial":
                return self._partial(*content)
            case "int":
                return int(content)
            case "random":
                chance = Random()
                chance.setstate(self._item(content))
                return chance
            case "count":
                return count(*self._items(content))
            case "props":
                return self._props(*content)
            case "object" | "list" | "set" | "dict" | "OrderedDict" | "Counter" | "deque" | "defaultdict":
                return self._mutable(place, kind, content)
            case "opaque":
                return self._resolver.stand_in(content)
            case _ if self._outside is not None:
                return self._outside(kind)
            case _:
                raise ValueError(f"a {kind!r} cannot be part of Props")

    def _method(self, owner: Any, name: str) -> Any:
        """Return a method of an object's class written in Python, without reading a property or calling anything."""
        instance = self._item(owner)
        function = _of_class(type(instance), name)
        if isinstance(function, FunctionType) and not _is_special(name):
            return MethodType(function, instance)
        if self._resolver.is_stand_in(instance) and not name.startswith("_"):
            return getattr(instance, name)
        raise TypeError(f"a {type(instance).__name__} has no method {name!r}")

    def _partial(self, func: Any, args: list[Any], keywords: list[Any]) -> Any:
        function = self._item(func)
        if isinstance(function, type) and function.__module__ == "builtins":
            raise TypeError(f"an actor cannot hold a partial of the built-in type {function.__name__}")
        return partial(function, *self._items(args), **{self._item(key): self._item(item) for key, item in keywords})

    def _props(self, factory: Any, args: list[Any], kwargs: list[Any], dispatcher: str, capacity: int | None) -> Props:
        arguments = {name: self._item(item) for name, item in kwargs}
        maker = self._item(factory)
        self._resolver.check_factory(maker)
        props = Props(maker, *self._items(args), **arguments)
        if dispatcher != props.dispatcher:
            props = props.with_dispatcher(dispatcher)  # type: ignore[arg-type]  # Checked there.
        return props if capacity is None else props.with_stash_capacity(capacity)

    def _mutable(self, place: int, kind: str, content: Any) -> Any:
        """Create the object empty and then fill it, because its content may refer to it."""
        if kind == "object":
            name, attributes = content
            instead = self._resolver.stand_in_for(name)
            return self._object(place, name, attributes) if instead is None else instead
        if kind in ("list", "set", "deque"):
            empty: dict[str, Callable[[], Any]] = {"list": list, "set": set, "deque": lambda: deque(maxlen=content[0])}
            container: Any = empty[kind]()
            self._items_by_place[place] = container
            items = content[1] if kind == "deque" else content
            add = container.add if kind == "set" else container.append
            for item in items:
                add(self._item(item))
            return container
        pairs = content
        if kind == "defaultdict":
            factory, pairs = content
            container = defaultdict(self._item(factory))
        else:
            container = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}[kind]()
        self._items_by_place[place] = container
        for key, item in pairs:
            container[self._item(key)] = self._item(item)
        return container

    def _object(self, place: int, name: str, attributes: list[Any]) -> Any:
        kind = self._resolver.find(name)
        if not isinstance(kind, type) or (self._outside is None and not is_dataclass(kind)):
            raise TypeError(f"it contains a {getattr(kind, '__qualname__', kind)}, which is no longer a dataclass")
        instance: Any = object.__new__(kind)
        self._items_by_place[place] = instance
        # Fields that were added to a dataclass since the recording get their defaults.
        for each in fields(kind) if is_dataclass(kind) else ():
            if each.default is not MISSING:
                object.__setattr__(instance, each.name, each.default)
            elif each.default_factory is not MISSING:
                object.__setattr__(instance, each.name, each.default_factory())
        for attribute, item in attributes:
            if not _is_plain(kind, attribute):
                raise TypeError(f"{attribute!r} is not an attribute of {kind.__name__} that is restored")
            object.__setattr__(instance, attribute, self._item(item))
        return instance


_MUTABLE = frozenset({"object", "list", "set", "dict", "OrderedDict", "Counter", "deque", "defaultdict"})
"""The kinds of nodes that have no hash, or whose parts are not traversed when they are hashed."""


def _address(path: Any, incarnation: Any) -> tuple[str, int]:
    if type(path) is not str or type(incarnation) is not int:
        raise TypeError("this is not the address of an actor")
    return path, incarnation


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _of_class(kind: type, name: str) -> object:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


@cache
def _is_plain(kind: type, attribute: str) -> bool:
    member = _of_class(kind, attribute)
    return not _is_special(attribute) and (isinstance(member, MemberDescriptorType) or not hasattr(member, "__set__"))


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


class PropsResolver:
    """Finds the Props of actors.

    Args:
        actors: Props by path, which take precedence over the trace.
        stand_ins: live objects by class name in the trace, for objects that could not be recorded.
        outside: reasons by class name in the trace, for actors that are never created again.
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
        """Return the Props of an actor that was spawned from outside any turn.

        Raises:
            ForeignModuleError: the Props name a module that was not passed.
            UnresolvedPropsError: there are no Props.
        """
        props = self.given(spawned.ref)
        if props is not None:
            return props
        if spawned.actor in self._outside:
            raise UnresolvedPropsError(self._outside[spawned.actor])
        if spawned.props is None:
            raise UnresolvedPropsError(f"the trace does not record how {spawned.actor or 'it'} was created")
        try:
            return self.checked(GraphReader(spawned.props, self, resolve).read(0))
        except (UnresolvedPropsError, ForeignModuleError):
            raise
        except REFUSALS as error:
            raise UnresolvedPropsError(f"{spawned.actor} cannot be spawned as recorded: {error}") from None

    def given(self, ref: Ref) -> Props | None:
        return self._actors.get(ref.path)

    def checked(self, props: object) -> Props:
        """Return `props` if they create an actor. Raises `UnresolvedPropsError` for anything else."""
        if not isinstance(props, Props):
            raise UnresolvedPropsError(f"it must be described by Props, not by a {type(props).__name__}")
        self.check_factory(props.factory)
        return props

    def check_factory(self, factory: object) -> None:
        is_actor = isinstance(factory, type) and issubclass(factory, Actor)
        if not is_actor and not (isinstance(factory, FunctionType) and _returns_actor(factory)):
            name = getattr(factory, "__qualname__", repr(factory))
            raise UnresolvedPropsError(f"{name} is neither an Actor nor a function annotated to return one")

    def stand_in_for(self, name: str) -> object | None:
        return self._stand_ins.get(name)

    def stand_in(self, name: str) -> object:
        if name not in self._stand_ins:
            raise UnresolvedPropsError(
                f"it contains a {_short(name)}, which a trace does not copy: pass stand_ins={{{name!r}: ...}}"
            )
        return self._stand_ins[name]

    def is_stand_in(self, item: object) -> bool:
        return any(item is each for each in self._stand_ins.values())

    def member(self, name: str, member: str) -> Enum:
        kind = self.find(name)
        if not (isinstance(kind, type) and issubclass(kind, Enum) and member in kind.__members__):
            raise UnresolvedPropsError(f"there is no {_short(name)}.{member}")
        return kind.__members__[member]

    def find(self, name: str) -> Any:
        """Return a class or function that a trace may name, or its stand-in. Raises as `RecordableNames.find` does."""
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
