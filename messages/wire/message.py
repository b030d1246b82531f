"""The declaration of what may be said: `@message` for what is told to an actor, `@value` for what rides inside.

Both make a frozen, slotted, keyword-only dataclass and enter it, under its wire tag, into one registry that the codec
reads. A tag names a class for ever: fields are added with defaults and never renamed, so that an old trace and an old
checkpoint stay readable.

In a notebook a cell that declares a class is run again and again. So a class of the same module and name takes the tag
over from its earlier declaration, and that one stays what it was for those who still hold it: their instances are
encoded with the fields they have, and decoded as the newest class. `isinstance` and `match` tell the two apart, as they
do for any class in a notebook; an actor looks the name up when it matches, and so knows the newest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast, dataclass_transform

from flykka.messages.wire.assembly import assemble_directly

T = TypeVar("T", bound="type[Value]")

_TAG = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")

_registry: dict[str, type[Value]] = {}


class Value:
    """A value that the codec can carry: a frozen dataclass known by its wire tag."""

    __slots__ = ()
    wire_tag = ""


class Message(Value):
    """A message from one actor to another."""

    __slots__ = ()


@dataclass_transform(frozen_default=True, kw_only_default=True)
def message(tag: str) -> Callable[[T], T]:
    """Declare a message `<conversation>.<verb>`; the class must derive from `Message`.

    Raises:
        TypeError: the class is not a `Message`.
        ValueError: the tag is malformed, or another class has it.
    """
    return _declare(tag, Message)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(tag: str) -> Callable[[T], T]:
    """Declare a value that travels inside messages; the class must derive from `Value`. Raises as `message` does."""
    return _declare(tag, Value)


def registered() -> dict[str, type[Value]]:
    """Every declared class by its wire tag, in the order of the tags."""
    return dict(sorted(_registry.items()))


def class_of(tag: str) -> type[Value] | None:
    """The class declared under a wire tag, if there is one; the newest of its declarations."""
    return _registry.get(tag)


def is_declared(cls: type[Value]) -> bool:
    """Tell whether the class itself was declared, now or earlier, and not only derives from a declared one."""
    return "wire_tag" in vars(cls) and bool(cls.wire_tag)


def is_a(cls: type, bases: tuple[type, ...]) -> bool:
    """Tell whether `cls` derives from one of `bases`, or from its namesake of an earlier or later declaration."""
    if issubclass(cls, bases):
        return True
    names = {_full_name(base) for base in bases}
    return any(_full_name(ancestor) in names for ancestor in cls.__mro__)


def _declare(tag: str, base: type[Value]) -> Callable[[T], T]:
    if not _TAG.fullmatch(tag):
        raise ValueError(f"wire tag {tag!r} is not of the form <conversation>.<verb>")

    def declare(cls: T) -> T:
        if not issubclass(cls, base):
            raise TypeError(f"{cls.__qualname__} is declared under {tag!r} but does not derive from {base.__name__}")
        made = cast(T, dataclass(frozen=True, slots=True, kw_only=True)(cls))
        assemble_directly(made)
        _enter(tag, made)
        made.wire_tag = tag
        return made

    return declare


def _enter(tag: str, cls: type[Value]) -> None:
    known = _registry.get(tag)
    if known is not None and _full_name(known) != _full_name(cls):
        raise ValueError(
            f"wire tag {tag!r} of {cls.__qualname__} already names {'.'.join(_full_name(known))}: "
            "a tag belongs to one class for ever, choose another one"
        )
    _registry[tag] = cls


def _full_name(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__
