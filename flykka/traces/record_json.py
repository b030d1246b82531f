"""Converts records to complete JSON, for programs, and for details that a table does not contain."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import fields
from typing import Any, assert_never

from flykka.messages.wire.message import Value
from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.effects import Effect, Undecoded
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn
from flykka.runtime.trace.state.graph_text import graph_text
from flykka.runtime.trace.text import message_tag


def record_json(record: Record) -> dict[str, Any]:
    """Convert a record. A ref becomes `path#incarnation`, a message an object with its tag as `type`."""
    head: dict[str, Any] = {"turn": record.sequence, "now_ms": record.now_ms}
    match record:
        case Turn():
            return head | {
                "kind": record.kind,
                "recipient": plain(record.recipient),
                "sender": plain(record.sender),
                "cause": record.cause,
                "message": plain(record.message),
                "effects": [_effect(effect) for effect in record.effects],
                "failure": plain(record.failure),
                "digest": record.digest,
            }
        case Killed():
            return head | {"kind": "killed", "recipient": plain(record.ref)}
        case Spawned():
            try:
                props = None if record.props is None else graph_text(record.props)
            except TraceError as wrong:
                raise TraceError(f"record {record.sequence}: {wrong}") from wrong
            return head | {
                "kind": "spawned",
                "recipient": plain(record.ref),
                "parent": plain(record.parent),
                "actor": record.actor,
                "recipe": props,
            }
        case DeadLetterRecord():
            return head | {
                "kind": "dead_letter",
                "recipient": plain(record.recipient),
                "sender": plain(record.sender),
                "message": plain(record.message),
                "reason": record.reason,
            }
        case _:
            assert_never(record)


def plain(item: Any) -> Any:
    match item:
        case Value():
            members = {field.name: plain(getattr(item, field.name)) for field in fields(item)}  # type: ignore[arg-type]
            return {"type": item.wire_tag, **members}
        case Undecoded():
            return {"type": message_tag(item), "undecoded": b64encode(item.data).decode(), "reason": item.reason}
        case Ref():
            return f"{item.path}#{item.incarnation}"
        case bytes():
            return b64encode(item).decode()
        case tuple():
            return [plain(part) for part in item]
        case _:
            return item


def _effect(effect: Effect) -> dict[str, Any]:
    members = {field.name: plain(getattr(effect, field.name)) for field in fields(effect)}
    return {"kind": type(effect).__name__, **members}
