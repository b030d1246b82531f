"""Effects in words: what came of a turn, in short, or in one line of a report with the fields of its message."""

from __future__ import annotations

from dataclasses import fields
from typing import assert_never

from flykka.messages.monitoring.blocking_work import BlockingWork
from flykka.messages.wire.message import Value
from flykka.runtime.trace.effects import (
    Awaited,
    Effect,
    Lookup,
    Pipe,
    Publish,
    Reply,
    Send,
    SetReceiveTimeout,
    StartTimer,
    Subscribe,
    Supervise,
    Undecoded,
    Unsubscribe,
    Watch,
)
from flykka.runtime.trace.records import DeadLetterRecord, Killed, Record, Spawned, Turn
from flykka.runtime.trace.text import failure_text, message_name, message_text


def effects_text(record: Record) -> str:
    """The effects of a record in short: the fields of a message are told where it was handled."""
    match record:
        case Turn(effects=effects):
            return "; ".join(map(effect_text, effects))
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
        case Send(target=target, message=message):
            return f"{_verb(effect)} {message_name(message)} to {target.path}"
        case Reply(message=message):
            return f"replies {message_name(message)}"
        case Publish(message=message):
            return f"publishes {message_name(message)}"
        case SetReceiveTimeout(timeout_ms=None):
            return "sets no receive timeout"
        case _:
            return effect.words.format(effect) + _more(effect)


def effect_line(effect: Effect) -> str:
    """Tell an effect with the fields of its message."""
    match effect:
        case Send(target=target, message=message):
            return f"{_verb(effect)}  {target.path} <- {message_text(message)}"
        case Reply(target=target, message=message):
            return f"replies  {target.path} <- {message_text(message)}"
        case Watch() | StartTimer() | Publish():
            said = [getattr(effect, each.name) for each in fields(effect)]
            texts = [message_text(each) for each in said if isinstance(each, Value | Undecoded)]
            return effect_text(effect) + (f": {', '.join(texts)}" if texts else "")
        case _:
            return effect_text(effect)


def _verb(effect: Send) -> str:
    return "forwards" if effect.forwarded else "sends" if effect.promise is None else "asks"


def _more(effect: Effect) -> str:
    """The text behind the words of an effect."""
    match effect:
        case StartTimer(delay_ms=int() as delay_ms):
            return f", then every {delay_ms} ms"
        case Supervise(delay_ms=delay_ms) if delay_ms:
            return f" in {delay_ms} ms"
        case Pipe(work=BlockingWork(function=function)):
            return f": {function}"
        case Lookup(refs=refs):
            return f": {', '.join(f'{ref.path}#{ref.incarnation}' for ref in refs) or 'nobody'}"
        case Subscribe(types=types) | Unsubscribe(types=types):
            return f" {', '.join(types) or 'everything'}"
        case Awaited(failure=failure, message=message):
            outcome = None if message is None else message_name(message)
            outcome = outcome if failure is None else failure_text(failure)
            return "" if outcome is None else f" with {outcome}"
        case _:
            return ""
