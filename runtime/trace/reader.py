"""The reader of trace files: up to the last whole frame, whatever became of the rest."""

from __future__ import annotations

import os
import pkgutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import msgpack

import flykka.messages
from flykka.messages.codec import decode
from flykka.messages.errors import DecodeError
from flykka.messages.failure import SerializedThrowable
from flykka.messages.message import Value
from flykka.messages.ref import Ref
from flykka.runtime.errors import TraceError
from flykka.runtime.trace import format as layout
from flykka.runtime.trace.records import (
    CancelTimer,
    DeadLetterRecord,
    Effect,
    Killed,
    Pipe,
    Record,
    Reply,
    Ring,
    Send,
    SetReceiveTimeout,
    Spawn,
    StartTimer,
    Stash,
    Stop,
    TraceHeader,
    Turn,
    Undecoded,
    UnstashAll,
    Unwatch,
    Watch,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Where a trace ends before its file does, and why."""

    offset: int
    reason: str


class Trace:
    """A recorded run. Nothing but the header is kept in memory; every iteration reads the file anew."""

    def __init__(self, path: Path, header: TraceHeader) -> None:
        self.path = path
        self.header = header

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Trace:
        """Read the header.

        Raises:
            TraceError: there is no whole header, or one that this version cannot read.
        """
        _declare_messages()
        location = Path(path)
        with location.open("rb") as file:
            payload = next((frame for frame in _frames(file) if not isinstance(frame, Damage)), None)
        return cls(location, _header(location, payload))

    def __iter__(self) -> Iterator[Turn]:
        return (record for record in self.records() if isinstance(record, Turn))

    def records(self) -> Iterator[Record]:
        """Turns, kills and dead letters, in the order of the file."""
        for payload in self._payloads():
            if not isinstance(payload, Damage):
                yield _record(payload)

    @property
    def turns(self) -> list[Turn]:
        """All turns, in the order in which they began."""
        return sorted(self, key=lambda turn: turn.sequence)

    @property
    def killed(self) -> list[Killed]:
        """All kills, in their order."""
        kills = (record for record in self.records() if isinstance(record, Killed))
        return sorted(kills, key=lambda kill: kill.sequence)

    @property
    def truncated(self) -> Damage | None:
        """Where and why the trace ends before its file does; None where it is whole."""
        return next((payload for payload in self._payloads() if isinstance(payload, Damage)), None)

    def _payloads(self) -> Iterator[bytes | Damage]:
        with self.path.open("rb") as file:
            frames = _frames(file)
            next(frames)
            yield from frames


def _declare_messages() -> None:
    """Have the codec know all that flykka's actors say: whoever reads a trace need not import it."""
    rooms = [f"flykka.messages.{module.name}" for module in pkgutil.iter_modules(flykka.messages.__path__)]
    for name in (*rooms, "flykka.runtime.events", "flykka.runtime.signals"):
        import_module(name)


def _frames(file: BinaryIO) -> Iterator[bytes | Damage]:
    offset = 0
    while head := file.read(layout.FRAME.size):
        reason = None
        if len(head) < layout.FRAME.size:
            reason = "cut off within the head of a frame"
        else:
            length, checksum = layout.FRAME.unpack(head)
            data = file.read(length) if length <= layout.MAX_FRAME_BYTES else b""
            if len(data) < length:
                reason = f"cut off: a frame of {length} bytes, of which {len(data)} are there"
            elif zlib.crc32(data) != checksum:
                reason = "the checksum of a frame does not fit"
        if reason is not None:
            yield Damage(offset=offset, reason=reason)
            return
        yield data
        offset += layout.FRAME.size + length


def _header(path: Path, payload: bytes | None) -> TraceHeader:
    if payload is None:
        raise TraceError(f"{path} has no whole header: it is no trace, or a crash left nothing of it")
    try:
        fields = msgpack.unpackb(payload)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or fields.get("format") != layout.FORMAT_NAME:
        raise TraceError(f"{path} is no trace")
    if not isinstance(fields.get("version"), int):
        raise TraceError(f"{path} is a trace without the version of its format")
    if fields["version"] > layout.FORMAT_VERSION:
        raise TraceError(
            f"{path} has format {fields['version']}, and this version reads up to {layout.FORMAT_VERSION}: "
            f"read it with flykka {fields.get('package')} or newer"
        )
    return TraceHeader(
        format_version=fields["version"],
        system=fields["system"],
        seed=fields["seed"],
        package=fields["package"],
        python=fields["python"],
        hash_seed=fields["hash_seed"],
        ring=None if fields.get("ring") is None else Ring(**fields["ring"]),
    )


def _record(payload: bytes) -> Record:
    kind, sequence, now_ms, *fields = msgpack.unpackb(payload)
    if kind == layout.TURN:
        recipient, sender, cause, turn_kind, message, effects, failure = fields
        return Turn(
            sequence=sequence,
            now_ms=now_ms,
            recipient=Ref(*recipient),
            sender=_ref(sender),
            cause=cause,
            kind=turn_kind,
            message=_value(message),
            effects=tuple(_effect(effect) for effect in effects),
            failure=_failure(failure),
        )
    if kind == layout.KILLED:
        return Killed(sequence=sequence, now_ms=now_ms, ref=Ref(*fields[0]))
    message, sender, recipient, reason = fields
    return DeadLetterRecord(
        sequence=sequence,
        now_ms=now_ms,
        message=_value(message),
        sender=_ref(sender),
        recipient=Ref(*recipient),
        reason=reason,
    )


def _effect(packed: list[Any]) -> Effect:
    match packed:
        case ["send", target, message]:
            return Send(target=Ref(*target), message=_value(message))
        case ["reply", target, message]:
            return Reply(target=Ref(*target), message=_value(message))
        case ["spawn", ref]:
            return Spawn(ref=Ref(*ref))
        case ["stop", ref]:
            return Stop(ref=Ref(*ref))
        case ["watch", ref, message]:
            return Watch(ref=Ref(*ref), message=None if message is None else _value(message))
        case ["unwatch", ref]:
            return Unwatch(ref=Ref(*ref))
        case ["start_timer", key, first_ms, message, delay_ms]:
            return StartTimer(key=key, first_ms=first_ms, message=_value(message), delay_ms=delay_ms)
        case ["cancel_timer", key]:
            return CancelTimer(key=key)
        case ["set_receive_timeout", timeout_ms]:
            return SetReceiveTimeout(timeout_ms=timeout_ms)
        case ["pipe"]:
            return Pipe()
        case ["stash"]:
            return Stash()
        case ["unstash_all", count]:
            return UnstashAll(count=count)
        case _:
            raise TraceError(f"unknown effect {packed!r}")


def _ref(packed: list[Any] | None) -> Ref | None:
    return None if packed is None else Ref(*packed)


def _value(packed: bytes | str) -> Value | Undecoded:
    if isinstance(packed, str):
        return Undecoded(data=b"", reason=packed)
    try:
        return decode(packed)
    except DecodeError as refusal:
        # A class that is not imported here, or of another version: the turn is worth showing all the same.
        return Undecoded(data=packed, reason=str(refusal))


def _failure(packed: bytes | None) -> SerializedThrowable | None:
    if packed is None:
        return None
    failure = decode(packed)
    assert isinstance(failure, SerializedThrowable)
    return failure
