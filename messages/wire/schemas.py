"""Wire schemas of annotations and classes, on which the codec is built.

The wire format has None, bool, int, float, str, bytes, tuples, maps (always a declared value, its tag under the empty
key) and one extension type (always a ref). `annotations` compiles the schemas.

Types are compared exactly, so that values survive a round trip: a bool is not an int, an enum's member is not a str, a
named tuple is not a tuple. As in Python itself, an int is accepted for a declared float; it is sent as a float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Resolve

TAG_KEY = ""
"""The key of a value's tag in its map. No field can have this name."""

Encode = Callable[[Any], object]
Decode = Callable[[Any, Resolve], object]

_ABSENT = object()
_SHOWN = 80


class SchemaMismatch(Exception):
    """A value does not fit its declaration. Each level adds its step to the path while the error propagates."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self._steps: list[str] = []

    def within(self, step: str) -> None:
        self._steps.append(step)

    @property
    def path(self) -> str:
        """The location of the error from the outermost value: `state.operators[0].operator_id`."""
        return "".join(reversed(self._steps)).removeprefix(".")


@dataclass(frozen=True, slots=True)
class UnionMember:
    """A member of an annotation's union: its wire type, the Python types that it accepts, and the conversion."""

    wire_type: type
    accepts: Callable[[type], bool]
    encode: Encode
    decode: Decode


class WireSchema:
    """The wire schema of an annotation. `plain` are the types that are encoded unchanged."""

    __slots__ = ("_alternatives", "_decoders", "_encoders", "_name", "plain")

    def __init__(self, name: str, plain: Iterable[type], alternatives: Iterable[UnionMember]) -> None:
        self._name = name
        self.plain = frozenset(plain)
        self._alternatives = tuple(alternatives)
        self._decoders = {alternative.wire_type: alternative.decode for alternative in self._alternatives}
        self._encoders: dict[type, Encode] = {}

    def encode(self, value: object) -> object:
        kind = type(value)
        if kind in self.plain:
            return value
        encode = self._encoders.get(kind)
        if encode is None:
            encode = self._encoders[kind] = self._encoder(kind)
        return encode(value)

    def decode(self, wire: object, resolve: Resolve) -> object:
        kind = type(wire)
        if kind in self.plain:
            return wire
        decode = self._decoders.get(kind)
        if decode is None:
            raise SchemaMismatch(f"expected {self._name}, found {wire_name(wire)}")
        return decode(wire, resolve)

    def _encoder(self, kind: type) -> Encode:
        for alternative in self._alternatives:
            if alternative.accepts(kind):
                return alternative.encode
        raise SchemaMismatch(f"expected {self._name}, got {kind.__qualname__}")


class FieldSchema(NamedTuple):
    """A field of a class. It is a tuple, because every message unpacks one per field."""

    name: str
    read: Callable[[Value], object]
    schema: WireSchema
    required: bool


@dataclass(frozen=True, slots=True)
class ClassSchema:
    """The wire schema of a declared class: a map of the tag and every field, in declaration order."""

    cls: type[Value]
    fields: tuple[FieldSchema, ...]

    def to_wire(self, value: Value) -> dict[str, object]:
        wire: dict[str, object] = {TAG_KEY: self.cls.wire_tag}
        name = ""
        try:
            for name, read, schema, _ in self.fields:
                item = read(value)
                wire[name] = item if type(item) in schema.plain else schema.encode(item)
        except SchemaMismatch as mismatch:
            mismatch.within(f".{name}")
            raise
        return wire

    def from_wire(self, wire: dict[str, object], resolve: Resolve) -> Value:
        """Return the value of a map, ignoring unknown keys of a newer peer. Raises `SchemaMismatch`."""
        fields: dict[str, object] = {}
        name = ""
        try:
            for name, _, schema, required in self.fields:
                item = wire.get(name, _ABSENT)
                if type(item) in schema.plain:
                    fields[name] = item
                elif item is not _ABSENT:
                    fields[name] = schema.decode(item, resolve)
                elif required:
                    raise SchemaMismatch("the field is required, but missing")
        except SchemaMismatch as mismatch:
            mismatch.within(f".{name}")
            raise
        try:
            return self.cls(**fields)
        except (TypeError, ValueError) as error:
            raise SchemaMismatch(f"refused by {self.cls.__qualname__}: {error}") from error


def wire_name(wire: object) -> str:
    if isinstance(wire, dict):
        tag = wire.get(TAG_KEY)
        return shorten(tag) if isinstance(tag, str) else "a map without a tag"
    return type(wire).__qualname__


def shorten(text: str) -> str:
    """Shorten a text from the wire for an error, because it may have any length."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
