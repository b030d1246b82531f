"""The frozen list of tags on the wire, in traces and in checkpoints: `python -m tests.messages.tags`.

Each line is one declared class: its tag and its fields, those with a default marked `=`. For classes that occur in
traces without a codec only the tag is listed. For errors of the kernel, on which replays depend, only the name is
listed. Traces and checkpoints of earlier versions must stay readable, so lines may only be added, or extended by fields
marked `=`. If a line disappears, or loses a word, users' files become unreadable.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from flykka.messages.wire.message import Value
from flykka.messages.wire.tags import Declared
from flykka.runtime import errors as kernel_errors
from tests.messages.registry import tagged

FROZEN = Path(__file__).with_name("frozen_wire_tags.txt")


def lines() -> list[str]:
    errors = [name for name, each in vars(kernel_errors).items() if isinstance(each, type) and name.endswith("Error")]
    return [*(" ".join([tag, *_fields(each)]) for tag, each in tagged().items()), *sorted(errors)]


def _fields(declared: Declared) -> list[str]:
    if not (isinstance(declared, type) and issubclass(declared, Value)):
        return []
    fields = dataclasses.fields(declared)  # type: ignore[arg-type]  # every declared class is a dataclass
    return [field.name if field.default is dataclasses.MISSING else f"{field.name}=" for field in fields]


if __name__ == "__main__":
    FROZEN.write_text("\n".join(lines()) + "\n")
