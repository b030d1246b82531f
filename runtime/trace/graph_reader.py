"""Graphs as objects again: `graph_writer` tells what stands in them."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Any

import msgpack

from flykka.runtime.props import Props


class GraphReader:
    """Makes the objects of a graph again.

    Args:
        outside: what stands for the world outside: by the kind of its node and its content.
        stand_in: what takes the place of an object of a class, None for nothing.
        find: the class or function of a name; it raises for one that is not to be had.
        value: a declared value of its bytes.
        ref: a ref of path and incarnation.
    """

    def __init__(
        self,
        packed: bytes,
        *,
        outside: Callable[[str, Any], object],
        stand_in: Callable[[str], object | None],
        find: Callable[[str], Any],
        value: Callable[[bytes], object],
        ref: Callable[[str, int], object],
    ) -> None:
        self._nodes, self._items_packed = msgpack.unpackb(packed, unicode_errors="surrogatepass", strict_map_key=False)
        self._made: dict[int, Any] = {}
        self._outside = outside
        self._stand_in = stand_in
        self._find = find
        self._value = value
        self._ref = ref

    def read(self, place: int) -> Any:
        """One of the objects that were packed."""
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
                return self._value(content)
            case "ref":
                return self._ref(*content)
            case "enum":
                return self._find(content[0])[content[1]]
            case "named":
                return self._find(content)
            case "method":
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
            case _:
                return self._outside(kind, content)

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
            instead = self._stand_in(name)
            if instead is not None:
                return instead
            made = self._made[place] = object.__new__(self._find(name))
            for attribute, item in attributes:
                object.__setattr__(made, attribute, self._item(item))
            return made
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
