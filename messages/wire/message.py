"""The declaration of what may be said: `@message` for what is told to an actor, `@value` for what rides inside.

Both make a frozen, slotted, keyword-only dataclass and enter it, under its wire tag, into the registry of `tags`, which
the codec reads. Fields are added with defaults and never renamed, so that an old trace and an old checkpoint stay
readable.

A class that a notebook declares again stays what it was for those who still hold it: their instances are encoded with
the fields they have, and decoded as the newest class. `isinstance` and `match` tell the two apart, as they do for any
class in a notebook; an actor looks the name up when it matches, and so knows the newest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, cast, dataclass_transform

from flykka.messages.wire.tags import check_tag, enter, full_name

T = TypeVar("T", bound="type[Value]")


def assemble_directly(cls: type[Any]) -> None:
    """Replace the initialiser of a frozen, slotted, keyword-only dataclass by one that takes 60 % of the time.

    What `dataclasses` writes for a frozen class goes through `object.__setattr__`, which looks each field up by its
    name. A checkpoint makes a dozen values a task. A class that does more than to keep its arguments is left as it is.
    """
    declared = fields(cls)
    plain = all(field.init and field.kw_only and field.default_factory is MISSING for field in declared)
    if not declared or not plain or hasattr(cls, "__post_init__"):
        return
    names = [field.name for field in declared]
    known: dict[str, Any] = {f"_set_{name}": getattr(cls, name).__set__ for name in names}
    known |= {f"_default_{field.name}": field.default for field in declared if field.default is not MISSING}
    arguments = (
        field.name if field.default is MISSING else f"{field.name}=_default_{field.name}" for field in declared
    )
    body = "".join(f"    _set_{name}(self, {name})\n" for name in names)
    exec(f"def __init__(self, *, {', '.join(arguments)}):\n{body}", known)
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {**cls.__init__.__annotations__}
    cls.__init__ = made


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


def is_a(cls: type, bases: tuple[type, ...]) -> bool:
    """Tell whether `cls` derives from one of `bases`, or from its namesake of an earlier or later declaration."""
    if issubclass(cls, bases):
        return True
    names = {full_name(base) for base in bases}
    return any(full_name(ancestor) in names for ancestor in cls.__mro__)


def _declare(tag: str, base: type[Value]) -> Callable[[T], T]:
    check_tag(tag)

    def declare(cls: T) -> T:
        if not issubclass(cls, base):
            raise TypeError(f"{cls.__qualname__} is declared under {tag!r} but does not derive from {base.__name__}")
        made = cast(T, dataclass(frozen=True, slots=True, kw_only=True)(cls))
        assemble_directly(made)
        enter(tag, made)
        return made

    return declare


class ControlMessage(Message):
    """Overtakes all other messages in a `ControlAwareMailbox`; anywhere else it is like any other (Akka's)."""

    __slots__ = ()


class NotInfluenceReceiveTimeout(Message):
    """Does not count against a receive timeout: who gets nothing else is idle (Akka's)."""

    __slots__ = ()
