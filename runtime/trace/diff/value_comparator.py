"""Compares recorded values field by field, also across two runs, whose ids and times differ.

Each run creates new ids. Two ids are taken as counterparts if they first occur at the same position, and must then be
counterparts everywhere. Times and durations differ as well; fields that should not be compared are ignored by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Any

import msgpack

from flykka.messages.wire.codec import encode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.runtime.trace.effects import Undecoded

ID = re.compile(r"(?<![0-9a-zA-Z])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,})(?![0-9a-zA-Z])")
"""Matches ids within a text."""


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A position at which two values differ. `path` is like `message.state.operators[0]`. `ABSENT` means no value."""

    path: str
    left: Any
    right: Any


_KEPT = 50_000


class _Absent(Enum):
    ABSENT = "nothing"

    def __repr__(self) -> str:
        return self.value


ABSENT = _Absent.ABSENT


class ValueComparator:
    """Compares values of two runs, and learns which ids correspond.

    `ignored` are patterns of field names. Without `renames`, ids must be equal.
    """

    def __init__(self, *, ignored: Sequence[str] = (), renames: bool = True) -> None:
        self._ignored = tuple(ignored)
        self._renames = renames
        self._right_of: dict[str, str] = {}
        self._left_of: dict[str, str] = {}
        self._field_names: dict[type, tuple[str, ...]] = {}
        self._is_ignored: dict[str, bool] = {}
        self._same: dict[tuple[str, str], bool] = {}

    def differences(self, left: Any, right: Any, path: str = "") -> Iterator[FieldDifference]:
        if left is right:
            return
        if isinstance(left, Undecoded) and isinstance(right, Undecoded):
            left, right = _on_the_wire(left), _on_the_wire(right)
        kind = type(left)
        if isinstance(left, Ref) and isinstance(right, Ref):
            yield from self.differences(left.path, right.path, path)
            if left.incarnation != right.incarnation and not self.ignores("incarnation"):
                yield FieldDifference(f"{path}.incarnation", left.incarnation, right.incarnation)
        elif kind is not type(right):
            yield FieldDifference(path, left, right)
        elif kind is str:
            if not self._same_text(left, right):
                yield FieldDifference(path, left, right)
        elif kind is tuple or kind is list:
            for index, (one, other) in enumerate(zip_longest(left, right, fillvalue=ABSENT)):
                yield from self.differences(one, other, f"{path}[{index}]")
        elif kind is dict:
            yield from self._of_maps(left, right, path)
        elif is_dataclass(kind):
            for name in self._compared(kind):
                within = f"{path}.{name}" if path else name
                yield from self.differences(getattr(left, name), getattr(right, name), within)
        elif left != right and (left == left or right == right):  # Two NaNs are equal.
            yield FieldDifference(path, left, right)

    def ignores(self, name: str) -> bool:
        is_ignored = self._is_ignored.get(name)
        if is_ignored is None:
            is_ignored = self._is_ignored[name] = any(fnmatchcase(name, pattern) for pattern in self._ignored)
        return is_ignored

    def _of_maps(self, left: dict[Any, Any], right: dict[Any, Any], path: str) -> Iterator[FieldDifference]:
        for name in sorted({*left, *right}, key=str):
            if not self.ignores(str(name)):
                within = f"{path}.{name}" if path else str(name)
                yield from self.differences(left.get(name, ABSENT), right.get(name, ABSENT), within)

    def _compared(self, kind: type) -> tuple[str, ...]:
        names = self._field_names.get(kind)
        if names is None:
            field_names = (field.name for field in fields(kind))
            names = self._field_names[kind] = tuple(name for name in field_names if not self.ignores(name))
        return names

    def _same_text(self, left: str, right: str) -> bool:
        if not self._renames:
            return left == right
        # Pairs of ids are never removed, so the result for two texts stays valid.
        is_same = self._same.get((left, right))
        if is_same is None:
            if len(self._same) > _KEPT:
                self._same.clear()
            is_same = self._same[left, right] = self._has_same_words(left, right)
        return is_same

    def _has_same_words(self, left: str, right: str) -> bool:
        if ID.split(left) != ID.split(right):
            return False
        pairs = zip(ID.findall(left), ID.findall(right), strict=True)
        return all(self._is_bound(one, other) for one, other in pairs)

    def _is_bound(self, left: str, right: str) -> bool:
        return self._right_of.setdefault(left, right) == right and self._left_of.setdefault(right, left) == left


def _on_the_wire(message: Undecoded) -> Any:
    try:
        return msgpack.unpackb(message.data, use_list=False)
    except ValueError:
        return message.data


def same(recorded: object, now: object) -> bool:
    """Return True if two values have the same wire form. Messages that could not be written are equal to each other."""
    if recorded == now:
        return True
    if isinstance(recorded, Undecoded):
        form = _form(now)
        # The value could not be encoded when it was recorded, and cannot be encoded now.
        return isinstance(now, Value) and (form or b"") == recorded.data
    # A value that does not equal itself, such as NaN, is compared by its bytes.
    form = _form(recorded)
    return form is not None and form == _form(now)


def _form(item: object) -> bytes | None:
    try:
        return encode(item) if isinstance(item, Value) else None
    except CodecError:
        return None
