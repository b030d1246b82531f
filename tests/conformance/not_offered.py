"""Rules of single Flink versions that are not offered here. They are named by version and rule, never by case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.case_files import Case

SHARE = 0.03
"""How much of an area's cases may fall under such rules."""

IDENTITY = {"id", "source", "note", "difficulty"}
"""What a rule must not look at."""


@dataclass(frozen=True, slots=True)
class NotOffered:
    """One version's rule that newer or older versions replaced."""

    area: str
    versions: str
    """As in the cases: `until 1.9`, `since 1.11`."""
    rule: str
    reason: str
    applies: Callable[[Case], bool]
    """Whether a case, without its identity, speaks of this rule."""


NOT_OFFERED: tuple[NotOffered, ...] = ()


def not_offered(area: str, case: Case) -> NotOffered | None:
    """The rule because of which a case does not hold here, if there is one."""
    if "since" not in case and "until" not in case:
        return None
    anonymous = {word: value for word, value in case.items() if word not in IDENTITY}
    return next((rule for rule in NOT_OFFERED if rule.area == area and rule.applies(anonymous)), None)
