"""The registry of tags, which stand for classes on the wire, in traces and in checkpoints.

A tag belongs to its class forever, so that the class may be moved and renamed, and older data stays readable.
`@message` and `@value` declare the tags of encoded classes, `@trace_tag` the tags of all other names in a trace.

A notebook may repeatedly run the cell that declares a class, so a class with the same module and name takes over the
tag of its earlier declaration.
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
    """Declare the tag of a class or function that traces name, such as an actor or an actor's argument.

    Place it above `@dataclass`, which creates another class.

    Raises:
        ValueError: the tag is malformed, or another class has it.
    """
    check_tag(tag)

    def declare(declared: D) -> D:
        enter(tag, declared)  # type: ignore[arg-type]  # A class or function.
        return declared

    return declare


def check_tag(tag: str) -> None:
    if not _TAG.fullmatch(tag):
        raise ValueError(f"tag {tag!r} is not of the form <conversation>.<verb>")


def enter(tag: str, declared: Declared) -> None:
    former = _registry.get(tag)
    if former is not None and full_name(former) != full_name(declared):
        raise ValueError(
            f"tag {tag!r} of {declared.__qualname__} already belongs to {'.'.join(full_name(former))}: choose another"
            " tag"
        )
    _registry[tag] = declared
    declared.wire_tag = tag  # type: ignore[union-attr]


def registered() -> dict[str, Declared]:
    return dict(sorted(_registry.items()))


def class_of(tag: str) -> Declared | None:
    """Return the class or function of a tag, if there is one. Of several declarations, the newest counts."""
    return _registry.get(tag)


def tag_of(declared: object) -> str:
    """Return the tag of a class or function itself, not of a base class, or "" if it has none."""
    tag: str = getattr(declared, "__dict__", {}).get("wire_tag", "")
    return tag


def name_in_trace(item: object) -> str:
    """Return the name of a class or function, or of any other object's class, in a trace.

    This is its tag, or "flykka.Qualname" for a class of flykka without a tag, wherever it is defined, or
    "module:Qualname" for any other.
    """
    declared: Any = item if hasattr(item, "__qualname__") else type(item)
    tag = tag_of(declared)
    if tag:
        return tag
    if declared.__module__.partition(".")[0] == _OWN:
        return f"{_OWN}.{declared.__qualname__}"
    return f"{declared.__module__}:{declared.__qualname__}"


def full_name(declared: Declared) -> tuple[str, str]:
    return declared.__module__, declared.__qualname__
