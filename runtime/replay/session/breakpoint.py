"""A breakpoint in a trace: `CheckpointCoordinator <- DeclineCheckpoint(checkpoint_id=7)`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from flykka.messages.wire.message import Value
from flykka.runtime.errors import ReplaySessionError
from flykka.runtime.trace.effects import Undecoded
from flykka.runtime.trace.records import Turn
from flykka.runtime.trace.text import message_name, message_tag, unwrapped

_FORM = re.compile(
    r"\s*(?:(?P<actor>[^\s<]+)?\s*<-)?\s*(?P<message>[\w.*?]+)?\s*(?:\((?P<fields>[^()]*)\))?\s*", re.ASCII
)
_EXAMPLE = (
    "a breakpoint is written as 'CheckpointCoordinator <- DeclineCheckpoint(checkpoint_id=7)'; each part may be omitted"
)
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Matches turns by actor, message and field values. None, or a missing field, matches anything.

    An actor is named by its class, by the last part of its path, or by its path, with or without `/user/`. A message is
    named by its class or its tag. Both may contain the wildcards `*` and `?`. A value given as a text is compared with
    the field as a text.
    """

    actor: str | None = None
    message: str | type[Value] | None = None
    fields: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, pattern: str | type[Value], fields: Mapping[str, object]) -> Breakpoint:
        """Return a breakpoint for a message class with field values, or for a text. Raises the errors of `parse`."""
        if not isinstance(pattern, str):
            return cls(None, pattern, fields)
        parsed = cls.parse(pattern)
        return cls(parsed.actor, parsed.message, {**parsed.fields, **fields})

    @classmethod
    def parse(cls, text: str) -> Breakpoint:
        """Parse a breakpoint. Raises `ReplaySessionError` if the text is malformed."""
        form = _FORM.fullmatch(text)
        if form is None or not text.strip():
            raise ReplaySessionError(f"no breakpoint: {text!r}; {_EXAMPLE}")
        fields: dict[str, object] = {}
        for assignment in filter(str.strip, (form["fields"] or "").split(",")):
            name, equals, value = (part.strip() for part in assignment.partition("="))
            if not equals or not name.isidentifier():
                raise ReplaySessionError(
                    f"{assignment.strip()!r} in breakpoint {text!r} is not of the form field=value"
                )
            fields[name] = value
        return cls(form["actor"], form["message"], fields)

    def matches(self, turn: Turn, actor_class: str | None) -> bool:
        return (
            self._matches_message(turn)
            and self._matches_recipient(turn.recipient.path, actor_class)
            and self._matches_fields(turn.message)
        )

    def _matches_message(self, turn: Turn) -> bool:
        match self.message:
            case None:
                return True
            case str() as pattern:
                names = (message_name(turn.message), message_tag(turn.message))
                return any(fnmatchcase(name, pattern) for name in names)
            case message_class:
                return isinstance(unwrapped(turn.message), message_class)

    def _matches_recipient(self, path: str, actor_class: str | None) -> bool:
        if self.actor is None:
            return True
        last = path.rpartition("/")[2]
        names = (path, path.removeprefix("/user/"), last, actor_class or "")
        return any(fnmatchcase(name, self.actor) for name in names) or last == _in_path_form(self.actor)

    def _matches_fields(self, message: Value | Undecoded) -> bool:
        content = unwrapped(message)
        return all(
            hasattr(content, name) and (getattr(content, name) == value or str(getattr(content, name)) == value)
            for name, value in self.fields.items()
        )

    def __str__(self) -> str:
        message = self.message.__name__ if isinstance(self.message, type) else self.message or "*"
        fields = ", ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"{self.actor or '*'} <- {message}{f'({fields})' if fields else ''}"


def _in_path_form(class_name: str) -> str:
    return _WORD_BEGINS.sub("-", class_name).lower()
