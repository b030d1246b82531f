"""The weight of a message: how much memory it may hold, for recorders that keep messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import NewType, get_args, get_type_hints

from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.tags import tag_of

_POINTER_BYTES = 8

_WEIGHTLESS = (int, float, Enum, Ref, type(None))

_weighers: dict[type, Callable[[object], int]] = {}


def weight(item: object) -> int:
    """The characters, bytes and places in tuples within a value, each counted as often as it occurs.

    Objects that several messages share are held once and counted with each: it is a bound, not a measure.
    """
    kind = type(item)
    if kind is str or kind is bytes:
        return len(item)  # type: ignore[arg-type]
    if kind is tuple:
        return _POINTER_BYTES * len(item) + sum(map(weight, item))  # type: ignore[arg-type, call-overload]
    weigher = _weighers.get(kind)
    if weigher is None:
        weigher = _weighers[kind] = _weigher(kind)
    return weigher(item)


def fingerprint(item: object) -> str:
    """A hash of the same, for a message that is too large to be kept: equal ones have the same."""
    digest = hashlib.blake2s(digest_size=16)
    _add(item, digest.update)
    return digest.hexdigest()


def _add(item: object, update: Callable[[bytes], None]) -> None:
    kind = type(item)
    update((tag_of(kind) or ("str" if issubclass(kind, Enum) else kind.__qualname__)).encode())
    if kind is bytes:
        update(item)  # type: ignore[arg-type]
    elif kind is tuple:
        for part in item:  # type: ignore[attr-defined]
            _add(part, update)
    elif isinstance(item, Value):
        for field in fields(item):  # type: ignore[arg-type]
            _add(getattr(item, field.name), update)
    else:
        update(str(item).encode(errors="surrogatepass"))


def _weigher(kind: type) -> Callable[[object], int]:
    """Write the sum over the fields out, as `dataclasses` does: every turn has its message weighed."""
    # What could carry something is mostly not there.
    parts = (f"(weight(item.{name}) if item.{name} else 0)" for name in _fields_of(kind))
    weigher: Callable[[object], int] = eval(f"lambda item: {' + '.join(parts) or 0}", {"weight": weight})
    return weigher


def _fields_of(kind: type, within: tuple[type, ...] = ()) -> tuple[str, ...]:
    """The fields of a declared class that may carry something; anything else carries nothing."""
    if not issubclass(kind, Value):
        return ()
    try:
        hints = get_type_hints(kind)
    except NameError:
        hints = {}  # It was declared within a function, and names what is known there only.
    within += (kind,)
    return tuple(field.name for field in fields(kind) if not _is_weightless(hints.get(field.name), within))  # type: ignore[arg-type]


def _is_weightless(hint: object, within: tuple[type, ...]) -> bool:
    """Tell whether all that is declared so is a number, a choice, a ref, or an id: a name that many share, and short.

    Or a value made of such parts, which has no class below its own and is not `within` itself, however deep.
    """
    if isinstance(hint, NewType):
        return True
    if isinstance(hint, type) and not get_args(hint):
        if issubclass(hint, _WEIGHTLESS):
            return True
        is_closed = is_dataclass(hint) and not hint.__subclasses__() and hint not in within
        return is_closed and not _fields_of(hint, within)
    return isinstance(hint, UnionType) and all(_is_weightless(each, within) for each in get_args(hint))
