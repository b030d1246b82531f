"""What Flink's versions disagree about. As it stands, these are the newest version's rules, and those of every job."""

from __future__ import annotations

from dataclasses import dataclass

from flykka.actors.checkpoint.failure_manager import COUNTED, FIRST_COUNTED
from flykka.actors.checkpoint.request_decider import CheckpointRequestDecider, RequestGate
from flykka.actors.checkpoint.single_request_gate import SingleRequestGate
from flykka.messages.checkpoint import CheckpointDeclineReason
from flykka.messages.job_graph import CheckpointingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRules:
    """Which version a coordinator follows, where that makes a difference.

    `queues_requests`: requests wait by precedence (since 1.11); before, one too many was declined.
    `checkpoints_after_tasks_finish`: a task that has finished counts as acknowledged (since 1.15, as an option 1.14).
    `savepoints_in_store`: a savepoint is retained and subsumes as a checkpoint does (1.5 to 1.14).
    `prefers_checkpoints`: a job goes back to a checkpoint where the store has a newer savepoint (an option then).
    `savepoints_commit`: the tasks hear of a completed savepoint, and commit (until 1.14).
    `counted_failures`: the reasons that fail the job when there are too many of them.
    """

    queues_requests: bool = True
    checkpoints_after_tasks_finish: bool = True
    savepoints_in_store: bool = False
    prefers_checkpoints: bool = False
    savepoints_commit: bool = False
    counted_failures: frozenset[CheckpointDeclineReason] = COUNTED

    @classmethod
    def of_flink(cls, *version: int) -> CoordinatorRules:
        """Those of one version: `of_flink(1, 9)`."""
        return cls(
            queues_requests=version >= (1, 11),
            checkpoints_after_tasks_finish=version >= (1, 15),
            savepoints_in_store=(1, 5) <= version < (1, 15),
            savepoints_commit=version < (1, 15),
            counted_failures=frozenset(reason for reason, first in FIRST_COUNTED.items() if version >= first),
        )


def request_gate(rules: CoordinatorRules, settings: CheckpointingSettings) -> RequestGate:
    """What decides over requests."""
    gate = CheckpointRequestDecider if rules.queues_requests else SingleRequestGate
    return gate(max_concurrent=settings.max_concurrent, min_pause_ms=settings.min_pause_ms)
