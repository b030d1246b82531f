"""Messages and effects as text: their names, one-line descriptions, and the failure that a message contains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, assert_never

from flykka.messages.kernel.blocking_work import BlockingWork
from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.messages.wire.schemas import TAG_KEY
from flykka.messages.wire.unpacking import is_nested_deeply, unpack
from flykka.runtime.trace import effects
from flykka.runtime.trace.effects import Effect, Undecoded
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn

_TEXT_LENGTH = 80
_ITEMS = 3
_DEPTH = 2
_names: dict[type, tuple[str, ...]] = {}
_OMITTED = ("job_id", "timestamp_ms")
"""Fields that are omitted: the recipient's path already names the job, and the turn has its own time."""


def unwrapped(message: Value | Undecoded) -> Value | Undecoded:
    return message.message if isinstance(message, LeaderSessionMessage) else message


def message_name(message: Value | Undecoded) -> str:
    content = unwrapped(message)
    return str(wire_fields(content).get(TAG_KEY, "?")) if isinstance(content, Undecoded) else type(content).__name__


def message_tag(message: Value | Undecoded) -> str:
    content = unwrapped(message)
    return message_name(content) if isinstance(content, Undecoded) else content.wire_tag


def message_text(message: Value | Undecoded) -> str:
    """Return the message in one line: its class with the fields that differ from defaults, long ones shortened."""
    content = unwrapped(message)
    if isinstance(content, Undecoded) and not content.data:
        return _shorten(content.reason)
    return _value_text(wire_fields(content) if isinstance(content, Undecoded) else content, _DEPTH)


def failure_of(record: Record) -> SerializedThrowable | None:
    match record:
        case Turn(failure=SerializedThrowable() as failure):
            return failure
        case Turn(message=message):
            return _failure_in(unwrapped(message), _DEPTH)
        case _:
            return None


def _failure_in(item: Value | Undecoded, depth: int) -> SerializedThrowable | None:
    if isinstance(item, SerializedThrowable):
        return item
    if isinstance(item, Undecoded) or depth == 0:
        return None
    for name in _field_names(type(item)):
        part = getattr(item, name)
        if isinstance(part, Value) and (ref := _failure_in(part, depth - 1)) is not None:
            return ref
    return None


def _field_names(kind: type) -> tuple[str, ...]:
    names = _names.get(kind)
    if names is None:
        names = _names[kind] = tuple(field.name for field in fields(kind))
    return names


def failure_text(failure: SerializedThrowable) -> str:
    return _shorten(f"{failure.type_name}: {failure.message}", 2 * _TEXT_LENGTH)


def wire_fields(message: Undecoded) -> dict[str, Any]:
    try:
        fields_on_the_wire = unpack(message.data, use_list=False)
    except ValueError:
        return {}
    if not isinstance(fields_on_the_wire, dict) or is_nested_deeply(fields_on_the_wire):
        return {}
    return fields_on_the_wire


def _value_text(value: Any, depth: int) -> str:
    match value:
        case SerializedThrowable():
            return failure_text(value)
        case Value() if depth == 0:
            return f"{type(value).__name__}(...)"
        case Value():
            return f"{type(value).__name__}({_fields_text(_told_fields(value), depth - 1)})"
        case Mapping():
            entries = {name: item for name, item in value.items() if name != TAG_KEY}
            return f"{value.get(TAG_KEY, '')}({_fields_text(entries, depth - 1) if depth else '...'})"
        case Ref():
            return value.path
        case bytes():
            return f"<{len(value)} bytes>"
        case tuple():
            texts = [_value_text(item, max(0, depth - 1)) for item in value[:_ITEMS]]
            return f"({', '.join(texts)}{f', ... {len(value)} items' if len(value) > _ITEMS else ''})"
        case _:
            return _shorten(str(value))


def _told_fields(value: Value) -> dict[str, Any]:
    return {
        field.name: getattr(value, field.name)
        for field in fields(value)  # type: ignore[arg-type]  # every declared class is a dataclass
        if field.default is MISSING or getattr(value, field.name) != field.default
    }


def _fields_text(entries: Mapping[str, Any], depth: int) -> str:
    return ", ".join(f"{name}={_value_text(item, depth)}" for name, item in entries.items() if name not in _OMITTED)


def _shorten(text: str, length: int = _TEXT_LENGTH) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= length else f"{one_line[: length - 3]}..."


def effects_text(record: Record) -> str:
    """Return the effects of a record in short. The fields of a message are shown where the message is handled."""
    match record:
        case Turn(effects=performed):
            return "; ".join(map(effect_text, performed))
        case Killed():
            return ""
        case Spawned(actor=actor):
            return f"made by {actor}"
        case DeadLetterRecord(reason=reason):
            return reason
        case _:
            assert_never(record)


def effect_text(effect: Effect) -> str:
    match effect:
        case effects.Send(target=target, message=message):
            return f"{_verb(effect)} {message_name(message)} to {target.path}"
        case effects.Reply(message=message):
            return f"replies {message_name(message)}"
        case effects.Publish(message=message):
            return f"publishes {message_name(message)}"
        case effects.SetReceiveTimeout(timeout_ms=None):
            return "sets no receive timeout"
        case _:
            return effect.words.format(effect) + _details(effect)


def effect_line(effect: Effect) -> str:
    match effect:
        case effects.Send(target=target, message=message):
            return f"{_verb(effect)}  {target.path} <- {message_text(message)}"
        case effects.Reply(target=target, message=message):
            return f"replies  {target.path} <- {message_text(message)}"
        case effects.Watch() | effects.StartTimer() | effects.Publish():
            operands = [getattr(effect, each.name) for each in fields(effect)]
            texts = [message_text(each) for each in operands if isinstance(each, Value | Undecoded)]
            return effect_text(effect) + (f": {', '.join(texts)}" if texts else "")
        case _:
            return effect_text(effect)


def _verb(effect: effects.Send) -> str:
    return "forwards" if effect.forwarded else "sends" if effect.promise is None else "asks"


def _details(effect: Effect) -> str:
    match effect:
        case effects.StartTimer(delay_ms=int() as delay_ms):
            return f", then every {delay_ms} ms"
        case effects.Supervise(delay_ms=delay_ms) if delay_ms:
            return f" in {delay_ms} ms"
        case effects.Pipe(work=BlockingWork(function=function)):
            return f": {function}"
        case effects.Lookup(refs=refs):
            return f": {', '.join(f'{ref.path}#{ref.incarnation}' for ref in refs) or 'none'}"
        case effects.Subscribe(types=types) | effects.Unsubscribe(types=types):
            return f" {', '.join(types) or 'everything'}"
        case effects.Awaited(failure=failure, message=message):
            outcome = None if message is None else message_name(message)
            outcome = outcome if failure is None else failure_text(failure)
            return "" if outcome is None else f" with {outcome}"
        case _:
            return ""
