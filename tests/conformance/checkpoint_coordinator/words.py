"""Words of several components of area 01: reasons, and the retention of checkpoints."""

from __future__ import annotations

from flykka.actors.machines.checkpoint.properties import for_checkpoint
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason
from flykka.messages.graph.job_graph import ExternalizedCheckpointRetention
from tests.conformance.case_files import UnknownWordError

PREFIXES = ("", "CHECKPOINT_", "CHECKPOINT_DECLINED_", "CHECKPOINT_DECLINED_ON_")
"""Prefixes of Flink's reasons that flykka's names do not have."""

NEVER_RETAINED = for_checkpoint(ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)


def reason(word: str) -> CheckpointDeclineReason:
    names = CheckpointDeclineReason.__members__
    known = [name for prefix in PREFIXES if (name := word.removeprefix(prefix)) in names]
    if not known:
        raise UnknownWordError(f"reason {word!r}")
    return CheckpointDeclineReason(known[0])
