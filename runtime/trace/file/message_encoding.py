"""Messages as a recorder writes them: their encoding, or why there is none; and what a reader must know of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Any, NewType, get_args, get_type_hints

import msgpack

from flykka.messages.control.high_availability import LeaderSessionMessage
from flykka.messages.monitoring.blocking_work import BlockingWork
from flykka.messages.wire.annotations import class_schema
from flykka.messages.wire.codec import encode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.message import Message, Value
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.schemas import SchemaMismatch
from flykka.messages.wire.tags import class_of, name_in_trace, tag_of
from flykka.runtime.trace.file.versions import module_hashes, schema_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

    Redact = Mapping[type, Callable[[Message], Message]]

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Of a message that carries more, only its size and its fingerprint are written."""

_SHOWN_CHARACTERS = 4096
_POINTER_BYTES = 8
_WEIGHTLESS = (int, float, Enum, Ref, type(None))
_weighers: dict[type, Callable[[object], int]] = {}


class EncodedMessage:
    """The forms of messages, and the names that have come up since they were last asked for."""

    def __init__(self, redact: Redact | None = None) -> None:
        # What is not to be written is not to be written as what somebody works with either.
        self._redact: dict[type, Callable[[Any], Value]] = {BlockingWork: _name_alone, **redact} if redact else {}
        self._pack: Callable[[object], bytes] = msgpack.Packer().pack
        self._to_wire: dict[type, Callable[[Any], object]] = {}
        """Of the classes that are written as they are, which most are."""
        self._classes: set[type[Value]] = set()
        self._actors: set[str] = set()
        self._schemas: dict[str, str] = {}
        self._modules: dict[str, str] = {}
        self._redacted: list[str] = []

    def form(self, value: Value) -> bytes | str:
        """The bytes of a value; where it has none, a text that says so."""
        kind = type(value)
        to_wire = self._to_wire.get(kind)
        if to_wire is not None and (kind is not LeaderSessionMessage or type(value.message) in self._to_wire):  # type: ignore[attr-defined]
            try:
                if (
                    weight(value) <= MAX_MESSAGE_BYTES
                    and len(packed := self._pack(to_wire(value))) <= MAX_MESSAGE_BYTES
                ):
                    return packed
            except (SchemaMismatch, ValueError, OverflowError, RecursionError):
                pass  # Told in the words of the codec, where nobody waits for it.
        return self._form(value)

    def actor(self, name: str) -> None:
        """An actor of this class was spawned."""
        if name not in self._actors:
            self._actors.add(name)
            declared = class_of(name)
            module = name.partition(":")[0] if declared is None else declared.__module__
            self._modules |= module_hashes(module)

    def take_names(self) -> dict[str, object]:
        """The schemas, modules and redacted tags that have come up; empty where there are none."""
        names = {"schemas": self._schemas, "modules": self._modules, "redacted": self._redacted}
        self._schemas, self._modules, self._redacted = {}, {}, []
        return {key: found for key, found in names.items() if found}

    def _form(self, value: Value) -> bytes | str:
        self._meet(value)
        try:
            value = self._redacted_form(value)
        except Exception as refusal:  # noqa: BLE001 - the user's function; what it was to hide must not be written.
            return f"{name_in_trace(value)}: it could not be redacted ({type(refusal).__name__}: {refusal})"
        # Ahead of the encoding, which would take as much memory once more.
        carried = weight(value)
        if carried > MAX_MESSAGE_BYTES:
            return _too_large(value, carried)
        try:
            packed = encode(value, self._pack)
        except CodecError as refusal:
            # Its `repr`, for a trace must not lose the turn.
            shown = repr(value)
            return f"{shown[:_SHOWN_CHARACTERS]} ({refusal})"
        if len(packed) > MAX_MESSAGE_BYTES:
            return _too_large(value, len(packed))
        return packed

    def _meet(self, value: Value) -> None:
        kind = type(value)
        if isinstance(value, LeaderSessionMessage):
            self._meet(value.message)
        if kind not in self._classes and isinstance(value, Value):
            self._classes.add(kind)
            self._schemas[kind.wire_tag] = schema_hash(kind)
            if kind in self._redact:
                self._redacted.append(kind.wire_tag)
            elif tag_of(kind):
                with suppress(CodecError):  # Told in the words of the codec, each time.
                    self._to_wire[kind] = class_schema(kind).to_wire

    def _redacted_form(self, value: Value) -> Value:
        if not self._redact:
            return value
        if type(value) is LeaderSessionMessage:
            inner = self._redacted_form(value.message)
            assert isinstance(inner, Message)
            return LeaderSessionMessage(leader_session_id=value.leader_session_id, message=inner)
        redact = self._redact.get(type(value))
        if redact is None:
            return value
        redacted = redact(value)
        if type(redacted) is not type(value):
            raise TypeError(f"redact made a {type(redacted).__qualname__} of it")
        return redacted


def _too_large(value: Value, size: int) -> str:
    return f"{name_in_trace(value)} of {size:,} bytes, too large for a trace (BLAKE2 {fingerprint(value)})"


def _name_alone(work: BlockingWork) -> BlockingWork:
    return BlockingWork(function=work.function)


def weight(item: object) -> int:
    """The characters, bytes and places in tuples within a value, each counted as often as it occurs.

    So much memory it may hold, for recorders that keep messages. Objects that several messages share are held once
    and counted with each: it is a bound, not a measure.
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
