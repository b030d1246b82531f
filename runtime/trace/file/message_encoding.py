"""Encodes messages for a recorder, or gives the reason why a message has no encoding, and collects the names that a
reader needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Any, NewType, get_args, get_type_hints

import msgpack

from flykka.messages.kernel.blocking_work import BlockingWork
from flykka.messages.kernel.leader_session import LeaderSessionMessage
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
"""The maximum content of a written message. For larger messages only the size and the fingerprint are written."""

_SHOWN_CHARACTERS = 4096
_POINTER_BYTES = 8
_WEIGHTLESS = (int, float, Enum, Ref, type(None))
_weighers: dict[type, Callable[[object], int]] = {}


class EncodedMessage:
    """Encodes messages, and collects the names that have occurred since the last `take_names`."""

    def __init__(self, redact: Redact | None = None) -> None:
        # A redacted value must not be written as an argument of blocking work either.
        self._redact: dict[type, Callable[[Any], Value]] = {BlockingWork: _name_alone, **redact} if redact else {}
        self._pack: Callable[[object], bytes] = msgpack.Packer().pack
        self._to_wire: dict[type, Callable[[Any], object]] = {}
        self._classes: set[type[Value]] = set()
        self._actors: set[str] = set()
        self._schemas: dict[str, str] = {}
        self._modules: dict[str, str] = {}
        self._redacted: list[str] = []

    def form(self, value: Value) -> bytes | str:
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
                pass  # The codec reports the reason, on the slow path.
        return self._form(value)

    def actor(self, name: str) -> None:
        if name not in self._actors:
            self._actors.add(name)
            actor_class = class_of(name)
            module = name.partition(":")[0] if actor_class is None else actor_class.__module__
            self._modules |= module_hashes(module)

    def take_names(self) -> dict[str, object]:
        names = {"schemas": self._schemas, "modules": self._modules, "redacted": self._redacted}
        self._schemas, self._modules, self._redacted = {}, {}, []
        return {key: entries for key, entries in names.items() if entries}

    def _form(self, value: Value) -> bytes | str:
        self._add_names(value)
        try:
            value = self._redacted_form(value)
        except Exception as error:  # noqa: BLE001 - the user's function; what it was to hide must not be written.
            return f"{name_in_trace(value)}: it could not be redacted ({type(error).__name__}: {error})"
        # Weighed before the encoding, which would need as much memory again.
        carried = weight(value)
        if carried > MAX_MESSAGE_BYTES:
            return _too_large(value, carried)
        try:
            packed = encode(value, self._pack)
        except CodecError as error:
            # The `repr` is written instead, because a trace must not lose the turn.
            text = repr(value)
            return f"{text[:_SHOWN_CHARACTERS]} ({error})"
        if len(packed) > MAX_MESSAGE_BYTES:
            return _too_large(value, len(packed))
        return packed

    def _add_names(self, value: Value) -> None:
        kind = type(value)
        if isinstance(value, LeaderSessionMessage):
            self._add_names(value.message)
        if kind not in self._classes and isinstance(value, Value):
            self._classes.add(kind)
            self._schemas[kind.wire_tag] = schema_hash(kind)
            if kind in self._redact:
                self._redacted.append(kind.wire_tag)
            elif tag_of(kind):
                with suppress(CodecError):  # The codec reports the reason each time.
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
            raise TypeError(f"redact must return a message of the same class, not {type(redacted).__qualname__}")
        return redacted


def _too_large(value: Value, size: int) -> str:
    return f"{name_in_trace(value)} of {size:,} bytes, too large for a trace (BLAKE2 {fingerprint(value)})"


def _name_alone(work: BlockingWork) -> BlockingWork:
    return BlockingWork(function=work.function)


def weight(item: object) -> int:
    """Count the characters, bytes and tuple items within a value, each as often as it occurs.

    Recorders that retain messages use the weight to bound their memory. It is an upper bound, because objects shared by
    several messages are counted for each.
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
    """Return a hash of the content, for a message that is too large to retain. Equal messages have equal hashes."""
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
    """Generate the sum over the fields as code, like `dataclasses`, because the message of every turn is weighed."""
    # Fields that may have content are mostly empty.
    parts = (f"(weight(item.{name}) if item.{name} else 0)" for name in _fields_of(kind))
    weigher: Callable[[object], int] = eval(f"lambda item: {' + '.join(parts) or 0}", {"weight": weight})
    return weigher


def _fields_of(kind: type, within: tuple[type, ...] = ()) -> tuple[str, ...]:
    """Return the fields of a declared class that may have content. Objects of other classes have none."""
    if not issubclass(kind, Value):
        return ()
    try:
        hints = get_type_hints(kind)
    except NameError:
        hints = {}  # A class declared within a function refers to local names.
    within += (kind,)
    return tuple(field.name for field in fields(kind) if not _is_weightless(hints.get(field.name), within))  # type: ignore[arg-type]


def _is_weightless(hint: object, within: tuple[type, ...]) -> bool:
    """Return True if every value with this annotation is a number, an enum, a ref, or an id, which is short and shared.

    A value made of such parts also counts, if its class has no subclasses and is not nested in itself at any depth.
    """
    if isinstance(hint, NewType):
        return True
    if isinstance(hint, type) and not get_args(hint):
        if issubclass(hint, _WEIGHTLESS):
            return True
        is_closed = is_dataclass(hint) and not hint.__subclasses__() and hint not in within
        return is_closed and not _fields_of(hint, within)
    return isinstance(hint, UnionType) and all(_is_weightless(each, within) for each in get_args(hint))
