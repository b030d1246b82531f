"""What several components of area 01 say: reasons."""

from __future__ import annotations

from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from tests.conformance.case_files import UnknownWordError

PREFIXES = ("", "CHECKPOINT_", "CHECKPOINT_DECLINED_", "CHECKPOINT_DECLINED_ON_")
"""What Flink's names of reasons begin with and ours do not."""


def reason(word: str) -> CheckpointDeclineReason:
    """The reason of this name."""
    names = CheckpointDeclineReason.__members__
    known = [name for prefix in PREFIXES if (name := word.removeprefix(prefix)) in names]
    if not known:
        raise UnknownWordError(f"reason {word!r}")
    return CheckpointDeclineReason(known[0])
