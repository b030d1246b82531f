"""Live objects as a table: an actor's Props and state with all sharing and cycles, without pickle.

    graph = [nodes, items]
    item  = a plain value, or [place among the nodes]
    node  = [kind, content], which contains items

An object is written as the name of its class and its attributes. It is recreated without its initialiser, and nothing
named in a graph is called. The actor's context and its system are written as such. An object without a form, such as a
lock, a thread or a closure, makes the whole graph impossible, and the error names its position. Within the arguments of
Props, however, such an object is opaque, and a replay replaces it by a stand-in.

If only the Props are written, before the actor has started, less is written: only values, containers and dataclasses
among the arguments have a form, because any other object belongs to the actor's parent.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, cached_property, partial
from itertools import count
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import msgpack

from flykka.messages.wire.codec import encode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import name_in_trace
from flykka.runtime.context import ActorContext
from flykka.runtime.props import Props

if TYPE_CHECKING:
    from flykka.runtime.cell.cell import Cell

logger = logging.getLogger("flykka.runtime")

MAX_PROPS_BYTES = 16 * 1024 * 1024
"""The maximum size of Props that are written; otherwise the caller of a replay provides them. Also applies to states.
"""

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
MAX_NODES = 200_000
_MAX_INT = 1 << 63

Node = tuple[str, Any]


def learn_opaque(cell: Cell) -> None:
    """Learn which classes of an actor's arguments cannot be written. Other actors may hold such objects too."""
    GraphWriter(cell).pack(cell.props)


def pack_props(props: Props) -> bytes | None:
    """Return the packed graph of Props, written before their arguments can change.

    Returns None if the graph is too large, or if describing an argument raises. The actor is spawned all the same.
    """
    try:
        packed = GraphWriter(None).pack(props)
    except Exception:
        # Raised by msgpack's limits, or by code that an argument runs when it is described.
        logger.debug("%r cannot be described as a graph", props, exc_info=True)
        return None
    return packed if len(packed) <= MAX_PROPS_BYTES else None


class NoFormError(Exception):
    """An object that an actor holds cannot be written."""


class GraphWriter:
    """Writes the objects of a cell or, if the cell is None, Props. Used in a turn of the cell, so its objects do not
    change.
    """

    def __init__(self, cell: Cell | None) -> None:
        self._cell = cell
        self._nodes: list[Node | None] = []
        self._places: dict[int, int] = {}
        self._kept_alive: list[object] = []
        self._path: list[str] = []
        self._in_props = 0

    def pack(self, *items: object) -> bytes:
        """Return the graph of all objects reachable from `items`. Raises `NoFormError`."""
        try:
            places = [self._item(item) for item in items]
            packed: bytes = msgpack.Packer(unicode_errors="surrogatepass").pack([self._nodes, places])
        except (RecursionError, ValueError) as error:
            raise NoFormError(f"{self._where()}: {error}") from None
        if self._cell is not None and len(packed) > MAX_PROPS_BYTES:
            raise NoFormError(f"it needs {len(packed):,} bytes, more than {MAX_PROPS_BYTES:,}")
        return packed

    def _item(self, item: object) -> object:
        kind = type(item)
        if kind in _PLAIN and not (kind is int and not -_MAX_INT <= item < _MAX_INT):  # type: ignore[operator]
            return item
        place = self._places.get(id(item))
        if place is None:
            place = self._places[id(item)] = len(self._nodes)
            if place >= MAX_NODES:
                raise NoFormError(f"it contains more than {MAX_NODES:,} objects")
            # The item is held, so that the id of a temporary object is not reused.
            self._kept_alive.append(item)
            self._nodes.append(None)
            self._nodes[place] = self._node(item)
        return [place]

    def _step(self, name: object, item: object) -> object:
        self._path.append(str(name))
        packed = self._item(item)
        self._path.pop()
        return packed

    def _items(self, items: Iterable[object]) -> list[object]:
        return [self._step(f"[{place}]", item) for place, item in enumerate(items)]

    def _pairs(self, pairs: Iterable[tuple[object, object]]) -> list[list[object]]:
        return [[self._item(key), self._step(f"[{key!r}]", item)] for key, item in pairs]

    def _node(self, item: Any) -> Node:
        container = self._container(item)
        if container is not None:
            return container
        match item:
            case Value():
                try:
                    return "value", encode(item)
                except CodecError:
                    return self._object(item)
            case Ref():
                return "ref", [item.path, item.incarnation]
            case Enum():
                return "enum", [name_in_trace(item), item.name]
            case type() | FunctionType() | BuiltinFunctionType() if _is_of_module(item):
                return "named", name_in_trace(item)
            case MethodType() if self._cell and getattr(type(item.__self__), item.__name__, None) is item.__func__:
                return "method", [self._item(item.__self__), item.__name__]
            case partial():
                return "partial", [self._item(item.func), self._items(item.args), self._pairs(item.keywords.items())]
            case Props():
                return "props", self._props(item)
            case ActorContext() if item._cell is self._cell:
                return "context", None
            case _ if self._cell is not None and item is self._cell.system:
                return "system", None
            case int():
                return "int", str(item)
            case Random():
                return "random", self._item(item.getstate())
            case count():
                return "count", self._items(item.__reduce__()[1])
            case _:
                return self._object(item)

    def _container(self, item: Any) -> Node | None:
        kind = type(item)
        if kind in (list, tuple):
            return kind.__name__, self._items(item)
        if kind in (set, frozenset):
            # A set has no order, and equal sets must give equal bytes.
            return kind.__name__, self._items(sorted(item, key=repr))
        if kind in (dict, OrderedDict, Counter):
            return kind.__name__, self._pairs(item.items())
        if kind is deque:
            return "deque", [item.maxlen, self._items(item)]
        if kind is defaultdict:
            return "defaultdict", [self._item(item.default_factory), self._pairs(item.items())]
        return None

    def _props(self, props: Props) -> list[object]:
        factory = self._item(props.factory)
        self._in_props += 1
        args = [self._argument(item) for item in props.args]
        kwargs = [[name, self._argument(item)] for name, item in props.kwargs.items()]
        self._in_props -= 1
        return [factory, args, kwargs, props.dispatcher, props.stash_capacity]

    def _argument(self, item: object) -> object:
        """Return an argument, opaque if it has no form. Its class is not retried, as it may lead to a large graph."""
        kind: type = type(item)
        nodes, kept_alive, depth = len(self._nodes), len(self._kept_alive), len(self._path)
        if kind not in _OPAQUE:
            try:
                return self._item(item)
            except (NoFormError, RecursionError):
                if kind.__module__ != "builtins":
                    _OPAQUE.add(kind)
                for each in self._kept_alive[kept_alive:]:
                    self._places.pop(id(each), None)
                del self._nodes[nodes:], self._kept_alive[kept_alive:], self._path[depth:]
        place = self._places.setdefault(id(item), len(self._nodes))
        if place == len(self._nodes):
            self._kept_alive.append(item)
            self._nodes.append(("opaque", name_in_trace(item)))
        return [place]

    def _object(self, item: object) -> Node:
        kind: type = type(item)
        if kind in _OPAQUE or (self._cell is None and not is_dataclass(kind)):
            return "opaque", name_in_trace(item)
        if not (_is_of_module(kind) and _is_plain_class(kind)):
            raise NoFormError(f"{self._where()} is a {name_in_trace(kind)}, which a trace cannot copy")
        # A dataclass among the arguments of Props is written field by field, so only the field without a form is
        # opaque.
        write = self._argument if self._in_props and is_dataclass(kind) else self._item
        packed = []
        for name, value in _attributes(item):
            self._path.append(f".{name}")
            packed.append([name, write(value)])
            self._path.pop()
        return "object", [name_in_trace(kind), packed]

    def _where(self) -> str:
        return "".join(self._path).removeprefix(".") or "it"


def _is_of_module(item: Any) -> bool:
    member: object = sys.modules.get(item.__module__)
    for part in item.__qualname__.split("."):
        member = getattr(member, part, None)
    return member is item


def _attributes(item: object) -> list[tuple[str, object]]:
    kind: type = type(item)
    slots = [(name, getattr(item, name)) for name in slots_of(kind) if hasattr(item, name)]
    # Typing stores the parametrised class in objects of generic classes; no reader uses it.
    left_out = {"__orig_class__"}
    if getattr(kind, "outside_state", False):
        # A cached object that accesses external resources is created again from the owner's arguments.
        left_out |= {name for name in dir(kind) if isinstance(getattr(kind, name, None), cached_property)}
    instance_attributes = getattr(item, "__dict__", {}).items()
    return [*slots, *((name, value) for name, value in instance_attributes if name not in left_out)]


@cache
def slots_of(kind: type) -> tuple[str, ...]:
    names = []
    for base in reversed(kind.__mro__):
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                private = name.startswith("__") and not name.endswith("__")
                names.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return tuple(names)


@cache
def _is_plain_class(kind: type) -> bool:
    """Return True if an object consists of its attributes alone: no container written in C, no exception, no file."""
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return bool(kind.__flags__ & _HEAP_TYPE)


_HEAP_TYPE = 1 << 9
"""CPython's flag of a class that a class statement has created."""


_OPAQUE: set[type] = set()
"""The classes of arguments that had no form, through which an actor accesses external resources. They are opaque
everywhere.
"""
