"""The registry of tags, which stand for classes on the wire, in traces and in checkpoints.

A tag names its class for ever: the class may move and be renamed, and what was written before stays readable.
`@message` and `@value` declare the tags of what the codec carries, `@trace_tag` those of all else that a trace names.

In a notebook a cell that declares a class is run again and again. So a class of the same module and name takes the tag
over from its earlier declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

D = TypeVar("D", bound=Callable[..., Any])

Declared = type | FunctionType

_TAG = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
_OWN = "flykka"

_registry: dict[str, Declared] = {}


def trace_tag(tag: str) -> Callable[[D], D]:
    """Declare the tag of a class or function that traces name, such as an actor or an object that it is given.

    It stands above `@dataclass`, which makes another class.

    Raises:
        ValueError: the tag is malformed, or another class has it.
    """
    check_tag(tag)

    def declare(declared: D) -> D:
        enter(tag, declared)  # type: ignore[arg-type]  # A class or function.
        return declared

    return declare


def check_tag(tag: str) -> None:
    """Raise `ValueError` for a malformed tag."""
    if not _TAG.fullmatch(tag):
        raise ValueError(f"tag {tag!r} is not of the form <conversation>.<verb>")


def enter(tag: str, declared: Declared) -> None:
    """Enter a class or function under its tag. Raises `ValueError` if another one has it."""
    known = _registry.get(tag)
    if known is not None and full_name(known) != full_name(declared):
        raise ValueError(
            f"tag {tag!r} of {declared.__qualname__} already names {'.'.join(full_name(known))}: "
            "a tag belongs to one class for ever, choose another one"
        )
    _registry[tag] = declared
    declared.wire_tag = tag  # type: ignore[union-attr]


def registered() -> dict[str, Declared]:
    """Everything that is declared by its tag, in the order of the tags."""
    return dict(sorted(_registry.items()))


def class_of(tag: str) -> Declared | None:
    """The class or function of a tag, if there is one; the newest of its declarations."""
    return _registry.get(tag)


def tag_of(declared: object) -> str:
    """The tag that was declared for a class or function itself, not for a class that it derives from; "" for none."""
    tag: str = getattr(declared, "__dict__", {}).get("wire_tag", "")
    return tag


def name_in_trace(item: object) -> str:
    """The name of a class or function, or of the class of any other object, in a trace.

    That is its tag, or "flykka.Qualname" for a class of flykka's without one, wherever it is; "module:Qualname" for any
    other, which has no other name.
    """
    declared: Any = item if hasattr(item, "__qualname__") else type(item)
    tag = tag_of(declared)
    if tag:
        return tag
    if declared.__module__.partition(".")[0] == _OWN:
        return f"{_OWN}.{declared.__qualname__}"
    return f"{declared.__module__}:{declared.__qualname__}"


def full_name(declared: Declared) -> tuple[str, str]:
    """The module and the qualified name of a class or function."""
    return declared.__module__, declared.__qualname__
