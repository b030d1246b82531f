"""The declaration of what may be said: `@message` for what is told to an actor, `@value` for what rides inside.

Both make a frozen, slotted, keyword-only dataclass and enter it, under its wire tag, into one registry that the codec
reads. A tag names a class for ever: fields are added with defaults and never renamed, so that an old trace and an old
checkpoint stay readable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast, dataclass_transform

T = TypeVar("T", bound="type[Value]")

_TAG = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")

_registry: dict[str, type[Value]] = {}


class Value:
    """What the codec can carry: a frozen dataclass known by its wire tag."""

    __slots__ = ()
    wire_tag = ""


class Message(Value):
    """What one actor tells another."""

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
    """The class declared under a wire tag, if there is one."""
    return _registry.get(tag)


def _declare(tag: str, base: type[Value]) -> Callable[[T], T]:
    if not _TAG.fullmatch(tag):
        raise ValueError(f"wire tag {tag!r} is not of the form <conversation>.<verb>")

    def declare(cls: T) -> T:
        if not issubclass(cls, base):
            raise TypeError(f"{cls.__qualname__} is declared under {tag!r} but does not derive from {base.__name__}")
        made = cast(T, dataclass(frozen=True, slots=True, kw_only=True)(cls))
        _enter(tag, made)
        made.wire_tag = tag
        return made

    return declare


def _enter(tag: str, cls: type[Value]) -> None:
    known = _registry.get(tag)
    # A notebook cell that is run again declares the same class anew: the newer one takes the tag.
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(
            f"wire tag {tag!r} of {cls.__qualname__} already names {known.__module__}.{known.__qualname__}"
        )
    _registry[tag] = cls
