"""Converts values to bytes and back: msgpack, self-describing, checked against the annotations of the class both ways.

A value is a map of its tag (under the empty key) and all of its fields by name, in declaration order. So equal values
give equal bytes, any msgpack tool can read a trace, fields that an older peer does not know are skipped, and fields
that an older peer did not send take their defaults. Arrays without names would be a third smaller, but the order of the
declaration would become part of the protocol. A ref is an extension type, because a constructor alone cannot create it:
`resolve` turns path and incarnation into a live ref, or into a plain `Ref` without an actor system.
"""

from __future__ import annotations

from collections.abc import Callable

import msgpack

from flykka.messages.wire.annotations import value_schema
from flykka.messages.wire.errors import DecodeError, EncodeError
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref, Resolve
from flykka.messages.wire.schemas import SchemaMismatch, wire_name
from flykka.messages.wire.unpacking import MAX_NESTING, is_nested_deeply, unpack

_ANY_VALUE = value_schema((Value,))
_EMPTY_KEY = b"\xa0"


def encode(value: Value, pack: Callable[[object], bytes] = msgpack.packb) -> bytes:
    """Encode a declared value. Equal values give equal bytes.

    `pack` may be the method of a `msgpack.Packer` that the caller reuses: creating one takes longer than packing a
    small message.

    Raises:
        EncodeError: the value, or a value inside it, is not declared or does not fit its annotations.
        DeclarationError: a field has an annotation without a wire schema.
    """
    name = type(value).__qualname__
    try:
        wire = _ANY_VALUE.encode(value)
    except SchemaMismatch as mismatch:
        raise EncodeError(f"{_at(name, '.', mismatch.path)}: {mismatch.reason}") from mismatch.__cause__
    except RecursionError:
        raise EncodeError(f"{name}: nested too deeply") from None
    try:
        data = pack(wire)
    except (ValueError, OverflowError) as error:
        raise EncodeError(f"{name}{_refused(wire)}: {error}") from None
    return data


def decode(data: bytes, resolve: Resolve = Ref) -> Value:
    """Decode a value from the bytes of `encode`. `resolve` creates its refs.

    Raises:
        DecodeError: the bytes are truncated, have trailing data, or do not fit the declarations.
        DeclarationError: a field has an annotation without a wire schema.
    """
    try:
        wire = unpack(data, use_list=False)
    except msgpack.ExtraData as extra:
        raise DecodeError(f"{_tag(extra.unpacked)}: {len(extra.extra)} trailing bytes") from None
    except ValueError as error:
        raise DecodeError(f"not the encoding of a value: {error}") from None
    # Each value has its tag under the empty key, so data with few such keys cannot be deeply nested.
    if data.count(_EMPTY_KEY) > MAX_NESTING and is_nested_deeply(wire):
        raise DecodeError(f"{_tag(wire)}: nested too deeply")
    try:
        value = _ANY_VALUE.decode(wire, resolve)
    except SchemaMismatch as mismatch:
        raise DecodeError(f"{_at(_tag(wire), ': ', mismatch.path)}: {mismatch.reason}") from mismatch.__cause__
    except RecursionError:
        raise DecodeError(f"{_tag(wire)}: nested too deeply") from None
    assert isinstance(value, Value)
    return value


def _tag(wire: object) -> str:
    return wire_name(wire) if isinstance(wire, dict) else "no value"


def _at(place: str, separator: str, path: str) -> str:
    return f"{place}{separator}{path}" if path else place


def _refused(wire: object) -> str:
    """Return the path of the first item that msgpack cannot pack: an int beyond 64 bits, a lone surrogate."""
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
