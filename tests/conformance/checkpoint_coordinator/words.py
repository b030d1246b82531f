"""What several components of area 01 say: versions and reasons."""

from __future__ import annotations

from flykka.actors.checkpoint.rules import CoordinatorRules
from flykka.messages.checkpoint import CheckpointDeclineReason
from tests.conformance.case_files import Case, UnknownWordError

FIRST_VERSION = (1, 9)
"""What the cases speak of that name no version: 1.3 to 1.9, of which 1.9 comes first."""

PREFIXES = ("", "CHECKPOINT_", "CHECKPOINT_DECLINED_", "CHECKPOINT_DECLINED_ON_")
"""What Flink's names of reasons begin with and ours do not."""


def rules(case: Case) -> CoordinatorRules:
    """The rules of the version that the case speaks of."""
    named = case.get("since") or case.get("until")
    version = tuple(int(part) for part in str(named).split(".")) if named else FIRST_VERSION
    return CoordinatorRules.of_flink(*version)


def reason(word: str) -> CheckpointDeclineReason:
    """The reason of this name."""
    names = CheckpointDeclineReason.__members__
    known = [name for prefix in PREFIXES if (name := word.removeprefix(prefix)) in names]
    if not known:
        raise UnknownWordError(f"reason {word!r}")
    return CheckpointDeclineReason(known[0])
