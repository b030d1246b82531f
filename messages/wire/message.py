"""Declares messages (`@message`), which are sent to actors, and values (`@value`), which are contained in messages.

Both make a frozen, slotted, keyword-only dataclass and register it under its wire tag in `tags`, which the codec uses.
Fields are added with defaults and never renamed, so that old traces and checkpoints stay readable.

If a notebook declares a class again, existing instances of the old class are encoded with their own fields, and decoded
as the newest class. `isinstance` and `match` distinguish the two classes, as for any class in a notebook. An actor
looks up the name when it matches, and so uses the newest class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, cast, dataclass_transform

from flykka.messages.wire.tags import check_tag, enter, full_name

T = TypeVar("T", bound="type[Value]")


def assemble_directly(cls: type[Any]) -> None:
    """Replace the initialiser of a frozen, slotted, keyword-only dataclass by one that takes 60 % of the time.

    The generated initialiser uses `object.__setattr__`, which looks up each field by name, and a checkpoint creates a
    dozen values per task. A class whose initialiser does more than store its arguments is left unchanged.
    """
    dataclass_fields = fields(cls)
    plain = all(field.init and field.kw_only and field.default_factory is MISSING for field in dataclass_fields)
    if not dataclass_fields or not plain or hasattr(cls, "__post_init__"):
        return
    names = [field.name for field in dataclass_fields]
    namespace: dict[str, Any] = {f"_set_{name}": getattr(cls, name).__set__ for name in names}
    namespace |= {f"_default_{field.name}": field.default for field in dataclass_fields if field.default is not MISSING}
    arguments = (
        field.name if field.default is MISSING else f"{field.name}=_default_{field.name}" for field in dataclass_fields
    )
    body = "".join(f"    _set_{name}(self, {name})\n" for name in names)
    exec(f"def __init__(self, *, {', '.join(arguments)}):\n{body}", namespace)
    initialiser = namespace["__init__"]
    initialiser.__qualname__ = f"{cls.__qualname__}.__init__"
    initialiser.__module__ = cls.__module__
    initialiser.__annotations__ = {**cls.__init__.__annotations__}
    cls.__init__ = initialiser


class Value:
    """A value that the codec can encode: a frozen dataclass with a wire tag."""

    __slots__ = ()
    wire_tag = ""


class Message(Value):
    """A message from one actor to another."""

    __slots__ = ()


@dataclass_transform(frozen_default=True, kw_only_default=True)
def message(tag: str) -> Callable[[T], T]:
    """Declare a message with the tag `<conversation>.<verb>`. The class must derive from `Message`.

    Raises:
        TypeError: the class is not a `Message`.
        ValueError: the tag is malformed, or another class has it.
    """
    return _declare(tag, Message)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(tag: str) -> Callable[[T], T]:
    """Declare a value that messages contain. The class must derive from `Value`. Raises the errors of `message`."""
    return _declare(tag, Value)


def is_a(cls: type, bases: tuple[type, ...]) -> bool:
    """Return True if `cls` derives from one of `bases`, or from an earlier or later declaration of the same name."""
    if issubclass(cls, bases):
        return True
    names = {full_name(base) for base in bases}
    return any(full_name(ancestor) in names for ancestor in cls.__mro__)


def _declare(tag: str, base: type[Value]) -> Callable[[T], T]:
    check_tag(tag)

    def declare(cls: T) -> T:
        if not issubclass(cls, base):
            raise TypeError(f"{cls.__qualname__} is declared under {tag!r} but does not derive from {base.__name__}")
        dataclass_type = cast(T, dataclass(frozen=True, slots=True, kw_only=True)(cls))
        assemble_directly(dataclass_type)
        enter(tag, dataclass_type)
        return dataclass_type

    return declare


class ControlMessage(Message):
    """A message that overtakes others in a `ControlAwareMailbox`. Other mailboxes treat it as ordinary (as in Akka)."""

    __slots__ = ()


class NotInfluenceReceiveTimeout(Message):
    """A message that does not reset the receive timeout of its receiver (as in Akka)."""

    __slots__ = ()
