"""The effect of a message that is late, doubled or meant for somebody else; every machine has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """Nothing is to be done, and why."""

    reason: str
