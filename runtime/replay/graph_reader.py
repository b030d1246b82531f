"""Graphs as objects again: `graph_writer` tells what stands in them."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from itertools import count
from random import Random
from types import FunctionType, MemberDescriptorType, MethodType
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.codec import decode
from flykka.runtime.props import Props
from flykka.runtime.trace.state.graph_text import unpacked

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Resolve
    from flykka.runtime.replay.props_resolver import PropsResolver


_MAX_PARTS = 10_000_000
"""So many parts an immutable node may have, those of its parts included: hashing it goes through all of them."""


class GraphReader:
    """Makes the objects of a graph again. No initialiser is called.

    Args:
        graph: what was packed.
        resolver: finds classes, functions, and stand-ins for objects that have no copy.
        resolve: makes refs live.
        outside: what the world outside is by the kind of its node; None where no such thing can stand in the graph, and
            where objects are those of dataclasses alone.
    """

    def __init__(
        self, graph: bytes, resolver: PropsResolver, resolve: Resolve, outside: Callable[[str], object] | None = None
    ) -> None:
        self._nodes, self._items_packed = unpacked(graph)
        self._made: dict[int, Any] = {}
        self._parts: dict[int, int] = {}
        self._resolver = resolver
        self._resolve = resolve
        self._outside = outside

    def read(self, place: int) -> Any:
        """Read one of the objects that were packed."""
        return self._item(self._items_packed[place])

    def _item(self, item: Any) -> Any:
        if not isinstance(item, list):
            return item
        (place,) = item
        if type(place) is not int or place < 0:
            raise TypeError(f"{place!r} is no place among the nodes of a graph")
        if place not in self._made:
            kind, content = self._nodes[place]
            made = self._made[place] = self._make(place, kind, content)
            if kind not in _MUTABLE:
                self._weigh(place, content)
            return made
        return self._made[place]

    def _items(self, items: list[Any]) -> list[Any]:
        return [self._item(item) for item in items]

    def _weigh(self, place: int, content: Any) -> None:
        # Parts that are shared level after level double with each level.
        weight, waiting = 1, [content]
        while waiting:
            part = waiting.pop()
            if isinstance(part, list):
                is_place = len(part) == 1 and type(part[0]) is int
                weight += self._parts.get(part[0], 1) if is_place else 1
                waiting += () if is_place else part
        if weight > _MAX_PARTS:
            raise ValueError(f"it has more than {_MAX_PARTS:,} parts, most of them shared")
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
                raise ValueError(f"a {kind!r} is nothing that Props are made of")

    def _method(self, owner: Any, name: str) -> Any:
        """A method of an object's class that is written in Python: no property is asked for it, and nothing called."""
        instance = self._item(owner)
        found = _of_class(type(instance), name)
        if isinstance(found, FunctionType) and not _is_special(name):
            return MethodType(found, instance)
        if self._resolver.is_stand_in(instance) and not name.startswith("_"):
            return getattr(instance, name)
        raise TypeError(f"a {type(instance).__name__} has no method {name!r}")

    def _partial(self, func: Any, args: list[Any], keywords: list[Any]) -> Any:
        called = self._item(func)
        if isinstance(called, type) and called.__module__ == "builtins":
            raise TypeError(f"a {called.__name__} that is made later is nothing that actors hold")
        return partial(called, *self._items(args), **{self._item(key): self._item(item) for key, item in keywords})

    def _props(self, factory: Any, args: list[Any], kwargs: list[Any], dispatcher: str, capacity: int | None) -> Props:
        given = {name: self._item(item) for name, item in kwargs}
        maker = self._item(factory)
        self._resolver.check_factory(maker)
        props = Props(maker, *self._items(args), **given)
        if dispatcher != props.dispatcher:
            props = props.with_dispatcher(dispatcher)  # type: ignore[arg-type]  # Checked there.
        return props if capacity is None else props.with_stash_capacity(capacity)

    def _mutable(self, place: int, kind: str, content: Any) -> Any:
        """Made empty and then filled, for what is in it may lead back to it."""
        if kind == "object":
            name, attributes = content
            instead = self._resolver.stand_in_for(name)
            return self._object(place, name, attributes) if instead is None else instead
        if kind in ("list", "set", "deque"):
            empty: dict[str, Callable[[], Any]] = {"list": list, "set": set, "deque": lambda: deque(maxlen=content[0])}
            made: Any = empty[kind]()
            self._made[place] = made
            items = content[1] if kind == "deque" else content
            add = made.add if kind == "set" else made.append
            for item in items:
                add(self._item(item))
            return made
        pairs = content
        if kind == "defaultdict":
            factory, pairs = content
            made = defaultdict(self._item(factory))
        else:
            made = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}[kind]()
        self._made[place] = made
        for key, item in pairs:
            made[self._item(key)] = self._item(item)
        return made

    def _object(self, place: int, name: str, attributes: list[Any]) -> Any:
        kind = self._resolver.find(name)
        if not isinstance(kind, type) or (self._outside is None and not is_dataclass(kind)):
            raise TypeError(f"it was given a {getattr(kind, '__qualname__', kind)}, which is no dataclass any more")
        made: Any = object.__new__(kind)
        self._made[place] = made
        # Of a dataclass that has got more fields since, these have their defaults.
        for each in fields(kind) if is_dataclass(kind) else ():
            if each.default is not MISSING:
                object.__setattr__(made, each.name, each.default)
            elif each.default_factory is not MISSING:
                object.__setattr__(made, each.name, each.default_factory())
        for attribute, item in attributes:
            if not _is_plain(kind, attribute):
                raise TypeError(f"{attribute!r} is no attribute that a {kind.__name__} keeps")
            object.__setattr__(made, attribute, self._item(item))
        return made


_MUTABLE = frozenset({"object", "list", "set", "dict", "OrderedDict", "Counter", "deque", "defaultdict"})
"""Kinds of nodes whose parts are not gone through when they are hashed, or that have no hash."""


def _address(path: Any, incarnation: Any) -> tuple[str, int]:
    if type(path) is not str or type(incarnation) is not int:
        raise TypeError("not the address of an actor")
    return path, incarnation


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _of_class(kind: type, name: str) -> object:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


@cache
def _is_plain(kind: type, attribute: str) -> bool:
    """Tell whether an attribute is only kept: `__class__` and properties do more."""
    found = _of_class(kind, attribute)
    return not _is_special(attribute) and (isinstance(found, MemberDescriptorType) or not hasattr(found, "__set__"))
