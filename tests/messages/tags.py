"""The frozen list of everything that may be said: `python -m tests.messages.tags`.

One line is one declared class: its tag and its fields, those with a default marked `=`. Traces and checkpoints of
yesterday must stay readable, so a line may only be added, or grow by fields marked `=`. A line that goes, or loses a
word, breaks what people have on their disks.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from flykka.messages.wire.message import Value
from tests.messages.registry import declared_messages

FROZEN = Path(__file__).with_name("frozen_wire_tags.txt")


def lines() -> list[str]:
    """The list as the classes declare it now."""
    return [" ".join([tag, *_fields(cls)]) for tag, cls in declared_messages().items()]


def _fields(cls: type[Value]) -> list[str]:
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # every declared class is a dataclass
    return [field.name if field.default is dataclasses.MISSING else f"{field.name}=" for field in fields]


if __name__ == "__main__":
    FROZEN.write_text("\n".join(lines()) + "\n")
