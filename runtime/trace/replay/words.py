"""An effect in one line of a report: what was done, to whom, and what was said."""

from __future__ import annotations

from dataclasses import fields

from flykka.messages.wire.message import Value
from flykka.runtime.trace.effect_text import effect_text
from flykka.runtime.trace.effects import Effect, Publish, Reply, Send, StartTimer, Undecoded, Watch
from flykka.runtime.trace.text import message_text


def effect_line(effect: Effect) -> str:
    """One effect, with the fields of its message."""
    match effect:
        case Send(target=target, message=message):
            verb = "forwards" if effect.forwarded else "sends" if effect.promise is None else "asks"
            return f"{verb}  {target.path} <- {message_text(message)}"
        case Reply(target=target, message=message):
            return f"replies  {target.path} <- {message_text(message)}"
        case Watch() | StartTimer() | Publish():
            return effect_text(effect) + _message_of(effect)
        case _:
            return effect_text(effect)


def _message_of(effect: Effect) -> str:
    said = [getattr(effect, each.name) for each in fields(effect)]
    texts = [message_text(each) for each in said if isinstance(each, Value | Undecoded)]
    return f": {', '.join(texts)}" if texts else ""
