"""What an actor knows, as a tree of plain values: to look at, to compare, and to put into one number.

The tree holds what the actor's own code has noted down: attributes in `__dict__` and slots, containers, values, refs.
What stands for the world outside is no state and is left out, so that a replayed actor is described as the recorded
one was: the context, locks and threads, whatever else Python's library and the kernel have no value for, live objects
that the actor was given by its Props (a storage, a data plane), and whoever says `outside_state = True` of its class.

Nothing in a tree depends on the process: no addresses, no hashes, no order of a set.
"""

from __future__ import annotations

import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import PurePath
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any
from uuid import UUID

from flykka.messages.message import Value
from flykka.messages.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.trace.state_tree import Absent, Change, Fields, State, changes, checksum, one_line

__all__ = ["Absent", "Change", "Fields", "State", "changes", "checksum", "describe", "digest", "one_line"]

OUTSIDE = "<outside>"
"""Stands in a container for a member that is no state."""
CYCLE = "<cycle>"
TOO_DEEP = "<too deep>"

_MAX_DEPTH = 64
_MAX_KEPT = 1024
_TAKEN_AS_TEXT = (date, time, timedelta, tzinfo, Decimal, Fraction, UUID, PurePath, complex, range, slice, count)
_NO_LIVE_OBJECTS = (Value, Ref, Enum, type, FunctionType, str, bytes, int, float, type(None))
_KERNEL = ("flykka.runtime.leader_session", "flykka.runtime.fsm")
"""Modules of the kernel whose objects actors hold as state of their own."""


def describe(instance: object) -> State:
    """The state of an actor's instance, or of anything else. Immutable parts share their trees: do not change these."""
    return _Description(_given(instance)).of(instance)


def digest(instance: object) -> int:
    """The state in one number, the same in every process. Two instances that differ in it differ in `describe`."""
    return checksum(describe(instance))


class _Outside:
    """What a description leaves out."""


_LEFT_OUT = _Outside()

_kept: dict[int, tuple[Value, Fields]] = {}
"""Descriptions of values, which never change: an actor holds the same ones turn after turn."""


class _Description:
    """One walk through an instance; `given` are the live objects that it got from outside."""

    def __init__(self, given: Iterable[object]) -> None:
        self._outside = {id(each) for each in given}
        self._on_the_way: set[int] = set()
        self._within_value = False

    def of(self, item: object) -> State:
        """The description of `item`; what is left out is marked."""
        described = self._described(item)
        return OUTSIDE if isinstance(described, _Outside) else described

    def _described(self, item: object) -> State | _Outside:
        if item is None or isinstance(item, bool):
            return item
        if isinstance(item, Enum):
            return f"{type(item).__name__}.{item.name}"
        if isinstance(item, str):
            return str(item)
        if isinstance(item, int | float):
            return item
        if isinstance(item, Ref):
            return f"{item.path}#{item.incarnation}"
        if id(item) in self._outside:
            return _LEFT_OUT
        if isinstance(item, Value) and not self._within_value:
            return self._value(item)
        return self._compound(item)

    def _value(self, value: Value) -> State:
        kept = _kept.get(id(value))
        if kept is not None and kept[0] is value:
            return kept[1]
        self._within_value = True
        try:
            described = Fields(type(value).__name__, self._attributes(value))
        finally:
            self._within_value = False
        described.checksum = checksum(described)
        if len(_kept) >= _MAX_KEPT:
            _kept.clear()
        _kept[id(value)] = (value, described)
        return described

    def _compound(self, item: object) -> State | _Outside:
        if id(item) in self._on_the_way:
            return CYCLE
        if len(self._on_the_way) >= _MAX_DEPTH:
            return TOO_DEEP
        self._on_the_way.add(id(item))
        try:
            return self._parts(item)
        finally:
            self._on_the_way.discard(id(item))

    def _parts(self, item: object) -> State | _Outside:
        match item:
            case Mapping():
                return self._mapping(item)
            case tuple() if hasattr(item, "_fields"):
                return Fields(type(item).__name__, self._named(zip(item._fields, item, strict=True)))
            case list() | tuple() | deque():
                return [self.of(each) for each in item]
            case Set():
                return sorted((self.of(each) for each in item), key=lambda each: (type(each).__name__, one_line(each)))
            case bytes() | bytearray() | memoryview():
                return f"<{len(item)} bytes, crc {zlib.crc32(item):08x}>"
            case Random():
                return f"<chance, crc {zlib.crc32(repr(item.getstate()).encode()):08x}>"
            case type() | FunctionType() | MethodType() | BuiltinFunctionType():
                return f"<{getattr(item, '__module__', None)}.{item.__qualname__}>"
            case partial():
                return Fields("partial", self._named([("func", item.func), ("args", item.args), ("kw", item.keywords)]))
            case _ if isinstance(item, _TAKEN_AS_TEXT):
                return str(item)
        if _is_outside(type(item)):
            return _LEFT_OUT
        return Fields(type(item).__name__, self._attributes(item))

    def _mapping(self, mapping: Mapping[Any, object]) -> State:
        described: dict[str, State] = {}
        for key, value in mapping.items():
            name = one_line(self.of(key))
            while name in described:
                name += "'"  # As 7 beside "7".
            described[name] = self.of(value)
        return described

    def _attributes(self, item: object) -> Iterator[tuple[str, State]]:
        return self._named(_attributes(item))

    def _named(self, attributes: Iterable[tuple[str, object]]) -> Iterator[tuple[str, State]]:
        for name, value in attributes:
            described = self._described(value)
            if not isinstance(described, _Outside):
                yield name, described


def _attributes(item: object) -> Iterator[tuple[str, object]]:
    """What an object holds: slots in the order of their declaration, then the rest by name. No property is called."""
    for base in reversed(type(item).__mro__):
        slots = vars(base).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{base.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
            member = vars(base).get(name)
            try:
                yield name, member.__get__(item)  # type: ignore[union-attr]
            except AttributeError:
                continue  # Nothing was put there, or it is `__dict__` itself.
    attributes = getattr(item, "__dict__", {})
    yield from sorted(attributes.items())


def _is_outside(cls: type) -> bool:
    """Whether instances of a class are no state of an actor: they belong to the kernel, to Python, or say so."""
    if getattr(cls, "outside_state", False):
        return True
    if issubclass(cls, BaseException | Actor):
        return False
    module = cls.__module__
    if module.startswith("flykka.runtime."):
        return module not in _KERNEL
    return module.partition(".")[0] in sys.stdlib_module_names


def _given(instance: object) -> Iterator[object]:
    """The live objects among the arguments of an actor's Props, at whatever depth of the values there."""
    context = getattr(instance, "context", None)
    if isinstance(context, ActorContext):
        yield from _live(context._cell.props.arguments)


def _live(item: object) -> Iterator[object]:
    if isinstance(item, Mapping):
        yield from _live(tuple(item.values()))
    elif isinstance(item, tuple | list | Set):
        for each in item:
            yield from _live(each)
    elif is_dataclass(item) and not isinstance(item, Value | type):
        for field in fields(item):
            yield from _live(getattr(item, field.name))
    elif not isinstance(item, _NO_LIVE_OBJECTS):
        yield item
