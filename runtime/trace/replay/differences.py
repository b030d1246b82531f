"""Where two values differ: by path, down to the first parts that are not the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum

from flykka.messages.wire.codec import encode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.text import message_text

_TEXT_LENGTH = 60


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A part of a message or an effect, as it was recorded and as it is now; None where it is not there at all."""

    path: str
    recorded: str | None
    now: str | None

    def text(self) -> str:
        """As a report shows it."""
        recorded = "not recorded" if self.recorded is None else f"recorded {self.recorded}"
        now = "not there now" if self.now is None else f"now {self.now}"
        return f"{self.path}: {recorded}, {now}"


def same(recorded: object, now: object) -> bool:
    """Whether two values are the same on the wire; a message that was not written there is the same as its like."""
    if recorded == now:
        return True
    if isinstance(recorded, Undecoded):
        return _same_undecoded(recorded, now)
    if isinstance(recorded, Value) and isinstance(now, Value):
        try:
            # What is not equal to itself, as a NaN is not, has bytes all the same.
            return encode(recorded) == encode(now)
        except CodecError:
            return False
    return False


def differences(recorded: object, now: object, path: str = "") -> Iterator[FieldDifference]:
    """The parts that differ, in the order of the fields."""
    if same(recorded, now):
        return
    if type(recorded) is type(now) and is_dataclass(recorded) and not isinstance(recorded, Ref | type):
        for field in fields(recorded):
            below = f"{path}.{field.name}" if path else field.name
            if not (isinstance(recorded, SerializedThrowable) and field.name == "stack_trace"):
                yield from differences(getattr(recorded, field.name), getattr(now, field.name), below)
    elif isinstance(recorded, tuple) and isinstance(now, tuple):
        for place in range(max(len(recorded), len(now))):
            yield from _member(recorded, now, place, f"{path}[{place}]")
    else:
        yield FieldDifference(path or "it", short(recorded), short(now))


def _member(recorded: tuple[object, ...], now: tuple[object, ...], place: int, path: str) -> Iterator[FieldDifference]:
    if place >= len(recorded):
        yield FieldDifference(path, None, short(now[place]))
    elif place >= len(now):
        yield FieldDifference(path, short(recorded[place]), None)
    else:
        yield from differences(recorded[place], now[place], path)


def short(item: object) -> str:
    """A part of a message in a few words."""
    match item:
        case Enum():
            text = item.name
        case Ref():
            text = f"{item.path}#{item.incarnation}"
        case Undecoded():
            text = message_text(item)
        case bytes():
            text = f"<{len(item)} bytes>" if len(item) > _TEXT_LENGTH // 2 else repr(item)
        case _:
            text = repr(item)
    return text if len(text) <= _TEXT_LENGTH else f"{text[: _TEXT_LENGTH - 3]}..."


def _same_undecoded(recorded: Undecoded, now: object) -> bool:
    if not isinstance(now, Value):
        return False
    try:
        data = encode(now)
    except CodecError:
        # It could not be written then, and cannot be now.
        return not recorded.data
    return recorded.data == data
