"""Messages that were changed before they were written: of them a replay compares the class alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import fields, replace
from typing import Any

from flykka.messages.control.leader import LeaderSessionMessage
from flykka.messages.wire.message import Value
from flykka.runtime.trace.effects import Effect, Undecoded
from flykka.runtime.trace.replay.differences import same


def like_but_redacted(tags: Set[str]) -> Callable[[object, object], bool]:
    """Whether a message is the recorded one, as far as that can be known where messages of these tags were changed."""
    if not tags:
        return same

    def is_like(recorded: object, now: object) -> bool:
        blank = _blank(recorded, tags)
        return same(recorded, now) if blank is None else blank == _blank(now, tags)

    return is_like


def without_redacted(effects: Iterable[Effect], tags: Set[str]) -> tuple[Effect, ...]:
    """The effects with nothing but the tag in the place of every message whose tag is among these."""
    return tuple(_blanked(effect, tags) for effect in effects)


def _blanked(effect: Effect, tags: Set[str]) -> Effect:
    said = {field.name: getattr(effect, field.name) for field in fields(effect)}
    blanks: dict[str, Any] = {name: blank for name, item in said.items() if (blank := _blank(item, tags))}
    return replace(effect, **blanks) if blanks else effect


def _blank(item: object, tags: Set[str]) -> Undecoded | None:
    if not isinstance(item, Value):
        return None
    inner = item.message if isinstance(item, LeaderSessionMessage) else item
    return Undecoded(data=b"", reason=f"redacted: {inner.wire_tag}") if inner.wire_tag in tags else None
