"""The state of an actor as a tree of plain values, for display, comparison, and digests.

The tree contains what the actor's own code stores: attributes in `__dict__` and slots, containers, values, refs.
External objects are no state and are left out, so that a replayed actor has the same description as the recorded one:
the context, locks and threads, other objects of Python's library and the kernel without a value, live objects among its
Props (a storage, a data plane), and objects whose class sets `outside_state = True`. A tree does not depend on the
process: it contains no addresses, no hashes, and no order of a set.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import PurePath
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TypeAlias
from uuid import UUID

from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.trace.state.graph_writer import slots_of

_PLACE = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")
_WIDTH = 110
_DEPTH = 4

State: TypeAlias = "bool | int | float | str | list[State] | dict[str, State] | None"
"""A described value. An object with a class and attributes is a `Fields`, which is also a dict."""


class Absent(Enum):
    """Marks a missing value, because None would be a value."""

    ABSENT = "nothing"


class Fields(dict[str, "State"]):
    __slots__ = ("checksum", "kind")

    def __init__(self, kind: str, attributes: Iterable[tuple[str, State]] = ()) -> None:
        super().__init__(attributes)
        self.kind = kind
        self.checksum: int | None = None
        """The checksum, set if the object is immutable, so that its description is shared."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self.kind == other.kind and dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # A dict has no hash.


@dataclass(frozen=True, slots=True)
class Change:
    """A change at `path`, in the notation of Python: `_machine.pending[7].awaiting`."""

    path: str
    before: State | Absent
    after: State | Absent

    def __str__(self) -> str:
        return f"{self.path}: {one_line(self.before)} -> {one_line(self.after)}"


def changes(before: State | Absent, after: State | Absent) -> list[Change]:
    """Return the innermost differences. Of two lists, the elements that are equal at both ends are skipped."""
    return list(_changes("", before, after))


def checksum(state: State) -> int:
    """Return the CRC32 of a described state. The order within mappings counts, because an actor may depend on it."""
    if isinstance(state, Fields) and state.checksum is not None:
        return state.checksum
    if isinstance(state, dict):
        head = f"{{{state.kind}" if isinstance(state, Fields) else "{"
        parts = [f"{name!r}:{checksum(value)}" for name, value in state.items()]
        return zlib.crc32("\n".join((head, *parts)).encode(errors="surrogatepass"))
    if isinstance(state, list):
        return zlib.crc32("\n".join(("[", *(str(checksum(value)) for value in state))).encode())
    return zlib.crc32(repr(state).encode(errors="surrogatepass"))


def one_line(state: State | Absent) -> str:
    """Return the state in one line: `Pending(id=7, awaiting=[a2])`."""
    if isinstance(state, Fields):
        return f"{state.kind}({', '.join(f'{name}={one_line(value)}' for name, value in state.items())})"
    if isinstance(state, dict):
        return f"{{{', '.join(f'{key}: {one_line(value)}' for key, value in state.items())}}}"
    if isinstance(state, list):
        return f"[{', '.join(map(one_line, state))}]"
    if isinstance(state, Absent):
        return state.value
    return repr(state) if state == "" else str(state)


def _changes(path: str, before: State | Absent, after: State | Absent) -> Iterator[Change]:
    if before is after:
        return
    match before, after:
        case Fields(), Fields() if before.kind == after.kind:
            for name in dict.fromkeys([*before, *after]):
                inner = f"{path}.{name}" if path else name
                yield from _changes(inner, _at(before, name), _at(after, name))
        case dict(), dict() if type(before) is type(after) is dict:
            yield from _changes_of_mapping(path, before, after)
        case list(), list():
            yield from _changes_of_list(path, before, after)
        case _ if not _same(before, after):
            yield Change(path, before, after)


def _changes_of_mapping(path: str, before: dict[str, State], after: dict[str, State]) -> Iterator[Change]:
    for name in dict.fromkeys([*before, *after]):
        yield from _changes(f"{path}[{name}]", _at(before, name), _at(after, name))
    if before.keys() == after.keys() and list(before) != list(after):
        # An actor that iterates over the mapping behaves differently.
        yield Change(f"{path}.keys()", list(before), list(after))


def _changes_of_list(path: str, before: list[State], after: list[State]) -> Iterator[Change]:
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and _same(before[head], after[head]):
        head += 1
    tail = 0
    while tail < shorter - head and _same(before[-1 - tail], after[-1 - tail]):
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    for place in range(max(len(old), len(new))):
        was = old[place] if place < len(old) else Absent.ABSENT
        now = new[place] if place < len(new) else Absent.ABSENT
        yield from _changes(f"{path}[{head + place}]", was, now)


def _same(state: State | Absent, other: State | Absent) -> bool:
    """Compare two values: unlike in Python, True differs from 1, and two NaNs are equal."""
    if type(state) is not type(other):
        return False
    return state == other or (isinstance(state, float) and repr(state) == repr(other))


def _at(mapping: dict[str, State], name: str) -> State | Absent:
    return mapping.get(name, Absent.ABSENT)


def part_of(state: State, path: str) -> State | Absent:
    """Return the part at `path` within a state, in the notation of a `Change`: `_machine.pending[7].awaiting`."""
    part: State | Absent = state
    for attribute, key in _PLACE.findall(path):
        match part:
            case dict():
                part = part.get(attribute or key, Absent.ABSENT)
            case list() if key.isdecimal() and int(key) < len(part):
                part = part[int(key)]
            case _:
                return Absent.ABSENT
    return part


def lines_of(state: State, width: int = _WIDTH, depth: int = _DEPTH) -> list[str]:
    """Return the state as an indented tree. Parts that fit into `width` are on one line.

    Parts deeper than `depth` are shortened, and so are immutable values, whose content was shown when they were sent.
    """
    return list(_lines("", state, width, depth))


def shorten(text: str, width: int = _WIDTH) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _lines(name: str, state: State, width: int, depth: int) -> Iterator[str]:
    line = name + one_line(state)
    is_value = isinstance(state, Fields) and state.checksum is not None and name != ""
    if not isinstance(state, list | dict) or len(line) <= width or depth == 0 or is_value:
        yield shorten(line, width)
        return
    yield name + (state.kind if isinstance(state, Fields) else f"{len(state)} items")
    for member, content in state.items() if isinstance(state, dict) else enumerate(state):
        label = f"{member}: " if isinstance(state, Fields) else f"[{member}]: "
        for inner in _lines(label, content, width - 2, depth - 1):
            yield f"  {inner}"


OUTSIDE = "<outside>"
"""Replaces a member of a container that is no state."""
TOO_DEEP = "<too deep>"

_MAX_DEPTH = 64
_MAX_KEPT = 1024
_TAKEN_AS_TEXT = (date, time, timedelta, tzinfo, Decimal, Fraction, UUID, PurePath, complex, range, slice, count)
_NO_LIVE_OBJECTS = (Value, Ref, Enum, type, FunctionType, str, bytes, int, float, type(None))
_KERNEL = ("flykka.runtime.leader_session", "flykka.runtime.patterns.fsm")
"""The modules of the kernel whose objects actors have as their own state."""


def describe(instance: object) -> State:
    """Describe an actor's instance, or any other object. Immutable parts share their trees, so callers must not change
    them.
    """
    return _StateWalk({id(each) for each in _props_objects(instance)}).tree(instance)


def digest(instance: object) -> int:
    """Return the state as one number, equal in every process. Instances with different digests differ in `describe`."""
    return checksum(describe(instance))


class _Outside:
    """Marks parts that a description leaves out."""


_LEFT_OUT = _Outside()

_kept: dict[int, tuple[Value, Fields]] = {}
"""The descriptions of values, which never change, because an actor often has the same values turn after turn."""


class _StateWalk:
    """Traverses an instance level by level. `outside` are the ids of live objects among the arguments of its Props.

    A shared part is described at the position nearest to the actor, and other positions refer to it. This ends cycles
    too.
    """

    def __init__(self, outside: set[int], places: dict[int, str] | None = None) -> None:
        self._outside = outside
        self._places = {} if places is None else places
        self._later: deque[tuple[list[State] | dict[str, State], object, str, int]] = deque()

    def tree(self, item: object, place: str = "") -> State:
        top = self._member(item, place, 0)
        while self._later:
            container, compound, place, depth = self._later.popleft()
            if isinstance(container, list):
                container.extend(self._members(compound, place, depth))
            elif isinstance(container, Fields):
                for name, content in _named_parts(compound):
                    described = self._describe(content, f"{place}.{name}" if place else name, depth)
                    if not isinstance(described, _Outside):
                        container[name] = described
            else:
                self._fill_mapping(container, compound, place, depth)
        return top

    def _members(self, items: object, place: str, depth: int) -> Iterable[State]:
        assert isinstance(items, Iterable)
        if isinstance(items, Set):
            described = [self._describe_now(each, f"{place}[]") for each in items]
            return sorted(described, key=lambda each: (type(each).__name__, one_line(each)))
        return [self._member(each, f"{place}[{index}]", depth) for index, each in enumerate(items)]

    def _fill_mapping(self, container: dict[str, State], mapping: object, place: str, depth: int) -> None:
        assert isinstance(mapping, Mapping)
        for key, content in mapping.items():
            name = one_line(self._describe_now(key, f"{place}.keys()"))
            while name in container:
                name += "'"  # The keys 7 and "7", for example, have the same name.
            container[name] = self._member(content, f"{place}[{name}]", depth)

    def _describe_now(self, item: object, place: str) -> State:
        """Describe a key, or a member of a set, which is needed at once."""
        plain = _plain(item)
        if not isinstance(plain, _Outside):
            return plain
        return _StateWalk(self._outside, self._places).tree(item, place)

    def _member(self, item: object, place: str, depth: int) -> State:
        described = self._describe(item, place, depth)
        return OUTSIDE if isinstance(described, _Outside) else described

    def _describe(self, item: object, place: str, depth: int) -> State | _Outside:
        plain = _plain(item)
        if not isinstance(plain, _Outside):
            return plain
        if id(item) in self._outside:
            return _LEFT_OUT
        if isinstance(item, Value):
            return self._value(item, place, depth)
        empty = _empty(item)
        if not isinstance(empty, list | dict):
            return empty
        if not _is_immutable(item):
            if id(item) in self._places:
                return f"<{self._places[id(item)] or 'itself'}>"
            self._places[id(item)] = place
        return self._add_compound(empty, item, place, depth)

    def _value(self, value: Value, place: str, depth: int) -> State:
        if depth < 0:  # The object is within another value, which is cached as one description.
            return self._add_compound(Fields(type(value).__name__), value, place, depth)
        cached = _kept.get(id(value))
        if cached is not None and cached[0] is value:
            return cached[1]
        walk = _StateWalk(self._outside)
        described = Fields(type(value).__name__)
        walk._later.append((described, value, "", -_MAX_DEPTH))
        walk.tree(None)
        described.checksum = checksum(described)
        if len(_kept) >= _MAX_KEPT:
            _kept.clear()
        _kept[id(value)] = (value, described)
        return described

    def _add_compound(self, empty: list[State] | dict[str, State], item: object, place: str, depth: int) -> State:
        if depth + 1 in (0, _MAX_DEPTH):
            return TOO_DEEP
        self._later.append((empty, item, place, depth + 1))
        return empty


def _plain(item: object) -> State | _Outside:
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
    return _LEFT_OUT


def _empty(item: object) -> State | _Outside:
    match item:
        case Mapping():
            return {}
        case tuple() if hasattr(item, "_fields"):
            return Fields(type(item).__name__)
        case list() | tuple() | deque() | Set():
            return []
        case bytes() | bytearray() | memoryview():
            return f"<{len(item)} bytes, crc {zlib.crc32(item):08x}>"
        case Random():
            return f"<chance, crc {zlib.crc32(repr(item.getstate()).encode()):08x}>"
        case type() | FunctionType() | MethodType() | BuiltinFunctionType():
            return f"<{getattr(item, '__module__', None)}.{item.__qualname__}>"
        case partial():
            return Fields("partial")
        case _ if isinstance(item, _TAKEN_AS_TEXT):
            return str(item)
    return _LEFT_OUT if _is_outside(type(item)) else Fields(type(item).__name__)


def _is_immutable(item: object) -> bool:
    """Return True if it does not matter whether two positions hold the same object or two equal ones."""
    if isinstance(item, tuple | frozenset | partial):
        return True
    parameters = getattr(type(item), "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _named_parts(item: object) -> Iterable[tuple[str, object]]:
    if isinstance(item, partial):
        return [("func", item.func), ("args", item.args), ("keywords", item.keywords)]
    if isinstance(item, tuple):
        return zip(item._fields, item, strict=True)  # type: ignore[attr-defined]  # A named one.
    return _attributes(item)


def _attributes(item: object) -> Iterator[tuple[str, object]]:
    """Yield an object's attributes: slots in order of declaration, then the others by name. No property is called."""
    kind: type = type(item)
    yield from ((name, getattr(item, name)) for name in slots_of(kind) if hasattr(item, name))
    attributes = getattr(item, "__dict__", {})
    yield from sorted(attributes.items())


def _is_outside(cls: type) -> bool:
    """Return True if instances of a class are no actor state: they belong to the kernel or Python, or declare it."""
    if getattr(cls, "outside_state", False):
        return True
    if issubclass(cls, BaseException | Actor):
        return False
    module = cls.__module__
    if module.startswith("flykka.runtime."):
        return module not in _KERNEL
    return module.partition(".")[0] in sys.stdlib_module_names


def _props_objects(instance: object) -> Iterator[object]:
    """Yield the live objects among the arguments of an actor's Props, also nested ones."""
    context = getattr(instance, "context", None)
    if isinstance(context, ActorContext):
        yield from _live_objects(context._cell.props.arguments)


def _live_objects(item: object) -> Iterator[object]:
    if isinstance(item, Mapping):
        yield from _live_objects(tuple(item.values()))
    elif isinstance(item, tuple | list | Set):
        for each in item:
            yield from _live_objects(each)
    elif is_dataclass(item) and not isinstance(item, Value | type):
        for field in fields(item):
            yield from _live_objects(getattr(item, field.name))
    elif not isinstance(item, _NO_LIVE_OBJECTS):
        yield item
