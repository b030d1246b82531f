"""Wire forms of the values of an annotation, and of a class: the machinery that the codec runs on.

On the wire there are None, bool, int, float, str, bytes, tuples, maps (always a declared value, its tag under the empty
key) and one extension type (always a ref). `annotations` compiles the forms.

Types are compared exactly: a bool is not an int, an enum's member is not a str, a named tuple is not a tuple. What went
in would not come out again otherwise. The one exception is Python's own: an int may stand where a float is declared,
and travels as a float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Resolve

TAG_KEY = ""
"""The key of a value's tag in its map: no field can have this name."""

Encode = Callable[[Any], object]
Decode = Callable[[Any, Resolve], object]

_ABSENT = object()
_SHOWN = 80


class Misfit(Exception):
    """Something is not what its declaration says. On its way up every level adds its step to the path."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self._steps: list[str] = []

    def within(self, step: str) -> None:
        """Note that all this happened at `step` of what lies one level further out."""
        self._steps.append(step)

    @property
    def path(self) -> str:
        """Its place, from the outermost value: `state.operators[0].operator_id`."""
        return "".join(reversed(self._steps)).removeprefix(".")


@dataclass(frozen=True, slots=True)
class Alternative:
    """A member of an annotation's union: the type on the wire, the types in Python, and the way between them."""

    wire_type: type
    accepts: Callable[[type], bool]
    encode: Encode
    decode: Decode


class Form:
    """The wire form of the values of an annotation. `plain` are the types that are their own wire form."""

    __slots__ = ("_alternatives", "_decoders", "_encoders", "_name", "plain")

    def __init__(self, name: str, plain: Iterable[type], alternatives: Iterable[Alternative]) -> None:
        self._name = name
        self.plain = frozenset(plain)
        self._alternatives = tuple(alternatives)
        self._decoders = {alternative.wire_type: alternative.decode for alternative in self._alternatives}
        self._encoders: dict[type, Encode] = {}

    def encode(self, value: object) -> object:
        """The wire form of `value`. Raises `Misfit`."""
        kind = type(value)
        if kind in self.plain:
            return value
        encode = self._encoders.get(kind)
        if encode is None:
            encode = self._encoders[kind] = self._encoder(kind)
        return encode(value)

    def decode(self, wire: object, resolve: Resolve) -> object:
        """The value of `wire`. Raises `Misfit`."""
        kind = type(wire)
        if kind in self.plain:
            return wire
        decode = self._decoders.get(kind)
        if decode is None:
            raise Misfit(f"expected {self._name}, found {wire_name(wire)}")
        return decode(wire, resolve)

    def _encoder(self, kind: type) -> Encode:
        for alternative in self._alternatives:
            if alternative.accepts(kind):
                return alternative.encode
        raise Misfit(f"expected {self._name}, got {kind.__qualname__}")


class FieldForm(NamedTuple):
    """A field of a class: a tuple, because every message unpacks one per field."""

    name: str
    read: Callable[[Value], object]
    form: Form
    required: bool
    """Tell whether the field has no default."""


@dataclass(frozen=True, slots=True)
class ClassForm:
    """The wire form of the instances of a declared class: a map of the tag and every field, as declared."""

    cls: type[Value]
    fields: tuple[FieldForm, ...]

    def to_wire(self, value: Value) -> dict[str, object]:
        """The map of `value`. Raises `Misfit`."""
        wire: dict[str, object] = {TAG_KEY: self.cls.wire_tag}
        name = ""
        try:
            for name, read, form, _ in self.fields:
                item = read(value)
                wire[name] = item if type(item) in form.plain else form.encode(item)
        except Misfit as misfit:
            misfit.within(f".{name}")
            raise
        return wire

    def from_wire(self, wire: dict[str, object], resolve: Resolve) -> Value:
        """The value of a map; keys that this class does not know are a newer peer's. Raises `Misfit`."""
        fields: dict[str, object] = {}
        name = ""
        try:
            for name, _, form, required in self.fields:
                item = wire.get(name, _ABSENT)
                if type(item) in form.plain:
                    fields[name] = item
                elif item is not _ABSENT:
                    fields[name] = form.decode(item, resolve)
                elif required:
                    raise Misfit("required, but absent")
        except Misfit as misfit:
            misfit.within(f".{name}")
            raise
        try:
            return self.cls(**fields)
        except (TypeError, ValueError) as refusal:
            raise Misfit(f"refused by {self.cls.__qualname__}: {refusal}") from refusal


def wire_name(wire: object) -> str:
    """The tag of a value on the wire, or else what it is."""
    if isinstance(wire, dict):
        tag = wire.get(TAG_KEY)
        return shorten(tag) if isinstance(tag, str) else "a map without a tag"
    return type(wire).__qualname__


def shorten(text: str) -> str:
    """A text from the wire for an error: it may be of any length."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
