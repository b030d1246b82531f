"""Values as bytes and back: msgpack, self-describing, checked both ways against the annotations of the class.

A value is a map of its tag (under the empty key) and of all its fields in the order of their declaration, by name: so
the same value makes the same bytes, a trace can be read by any msgpack tool, and a field that an older peer does not
know is skipped, one that it did not send takes its default. Arrays without names would be a third smaller, but then
the order of the declaration would be part of the protocol. A ref is an extension type, for it is the one thing that a
decoder makes by other means than a constructor: `resolve` turns path and incarnation into a living ref, or into a plain
`Ref` where there is no actor system.
"""

from __future__ import annotations

from collections.abc import Callable

import msgpack

from flykka.messages.wire.annotations import value_form
from flykka.messages.wire.errors import DecodeError, EncodeError
from flykka.messages.wire.forms import Misfit, wire_name
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref, Resolve
from flykka.messages.wire.unpacking import MAX_NESTING, is_nested_deeply, unpack

_ANY_VALUE = value_form((Value,))
_EMPTY_KEY = b"\xa0"


def encode(value: Value, pack: Callable[[object], bytes] = msgpack.packb) -> bytes:
    """The bytes of a declared value: the same for the same value.

    `pack` may be that of a `msgpack.Packer` which the caller keeps: making one takes longer than a small message.

    Raises:
        EncodeError: the value, or one inside, is not declared or does not fit its annotations.
        DeclarationError: a field is annotated with what the wire has no form for.
    """
    name = type(value).__qualname__
    try:
        wire = _ANY_VALUE.encode(value)
    except Misfit as misfit:
        raise EncodeError(f"{_at(name, '.', misfit.path)}: {misfit.reason}") from misfit.__cause__
    except RecursionError:
        raise EncodeError(f"{name}: nested too deeply") from None
    try:
        data = pack(wire)
    except (ValueError, OverflowError) as refusal:
        raise EncodeError(f"{name}{_refused(wire)}: {refusal}") from None
    return data


def decode(data: bytes, resolve: Resolve = Ref) -> Value:
    """The value that `encode` made `data` of; its refs are made by `resolve`.

    Raises:
        DecodeError: the bytes are cut off, go on behind the value, or do not fit the declarations.
        DeclarationError: a field is annotated with what the wire has no form for.
    """
    try:
        wire = unpack(data, use_list=False)
    except msgpack.ExtraData as extra:
        raise DecodeError(f"{_tag(extra.unpacked)}: {len(extra.extra)} trailing bytes") from None
    except ValueError as refusal:
        raise DecodeError(f"not the bytes of a value: {refusal}") from None
    # Each value has its tag under the empty key: few can be nested deeply.
    if data.count(_EMPTY_KEY) > MAX_NESTING and is_nested_deeply(wire):
        raise DecodeError(f"{_tag(wire)}: nested too deeply")
    try:
        value = _ANY_VALUE.decode(wire, resolve)
    except Misfit as misfit:
        raise DecodeError(f"{_at(_tag(wire), ': ', misfit.path)}: {misfit.reason}") from misfit.__cause__
    except RecursionError:
        raise DecodeError(f"{_tag(wire)}: nested too deeply") from None
    assert isinstance(value, Value)
    return value


def _tag(wire: object) -> str:
    return wire_name(wire) if isinstance(wire, dict) else "no value"


def _at(what: str, separator: str, path: str) -> str:
    return f"{what}{separator}{path}" if path else what


def _refused(wire: object) -> str:
    """The path of the first thing in `wire` that msgpack cannot pack: an int beyond 64 bits, a lone surrogate."""
    match wire:
        case dict():
            steps = [(f".{name}", item) for name, item in wire.items()]
        case tuple():
            steps = [(f"[{index}]", item) for index, item in enumerate(wire)]
        case _:
            steps = []
    for step, item in steps:
        try:
            msgpack.packb(item)
        except (ValueError, OverflowError):
            return step + _refused(item)
    return ""
