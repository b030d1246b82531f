"""Graphs as objects again: `graph_writer` tells what stands in them."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from flykka.messages.wire.codec import decode
from flykka.runtime.props import Props
from flykka.runtime.trace.state.graph_text import unpacked

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Resolve
    from flykka.runtime.replay.props_resolver import PropsResolver


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
        if place not in self._made:
            kind, content = self._nodes[place]
            self._made[place] = self._make(place, kind, content)
        return self._made[place]

    def _items(self, items: list[Any]) -> list[Any]:
        return [self._item(item) for item in items]

    def _make(self, place: int, kind: str, content: Any) -> Any:
        match kind:
            case "tuple" | "frozenset":
                return (tuple if kind == "tuple" else frozenset)(self._items(content))
            case "value":
                return decode(content, self._resolve)
            case "ref":
                return self._resolve(*content)
            case "enum":
                return self._resolver.member(*content)
            case "named":
                return self._resolver.find(content)
            case "method" if self._outside is not None:
                return getattr(self._item(content[0]), content[1])
            case "partial":
                func, args, keywords = content
                given = {self._item(key): self._item(item) for key, item in keywords}
                return partial(self._item(func), *self._items(args), **given)
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

    def _props(self, factory: Any, args: list[Any], kwargs: list[Any], dispatcher: str, capacity: int | None) -> Props:
        given = {name: self._item(item) for name, item in kwargs}
        props = Props(self._item(factory), *self._items(args), **given)
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
            made = self._made[place] = empty[kind]()
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
        if self._outside is None and not (isinstance(kind, type) and is_dataclass(kind)):
            raise TypeError(f"it was given a {kind.__qualname__}, which is no dataclass any more")
        made = self._made[place] = object.__new__(kind)
        # Of a dataclass that has got more fields since, these have their defaults.
        for each in fields(kind) if is_dataclass(kind) else ():
            if each.default is not MISSING:
                object.__setattr__(made, each.name, each.default)
            elif each.default_factory is not MISSING:
                object.__setattr__(made, each.name, each.default_factory())
        for attribute, item in attributes:
            object.__setattr__(made, attribute, self._item(item))
        return made
