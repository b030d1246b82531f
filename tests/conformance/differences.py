"""The cases that fail because flykka differs from Flink on purpose, each with its row of `docs/flink.md`.

A case belongs here only if Flink's older rule, or its mechanism, was given up for a reason. Mere errors are corrected
instead.
"""

from __future__ import annotations

from types import MappingProxyType

_STOPPED_SENDER = "sender that stops behind an aligned barrier (`resumeConsumption`)"

DIFFERENCES = MappingProxyType(
    {
        "01/trigger-task-finished": "all tasks to trigger are RUNNING",
        "01/simple-savepoint-then-another": "savepoint",
        "01/savepoints-are-not-subsumed-but-subsume": "savepoint",
        "01/sync-savepoint-declined-fails-job": "savepoint of a stop that fails (`handleSynchronousSavepointFailure`)",
        "01/failures-which-reasons-count-1.9": "`CheckpointFailureManager`",
        "03/resolve-nothing-with-checkpointing": "restart strategy with checkpoints and none configured",
        "05/task-memory-error-in-cancel-is-fatal": "no memory left while a task is cancelled: fatal",
        "09/recv-blocked-upstream": _STOPPED_SENDER,
        "09/request-retrigger-before-request": "`initialBackoff`, `maxBackoff`",
        "09/send-round-robin": "`notifyDataAvailable`",
        "09/send-credit-for-unknown-reader": "credit announced (`AddCredit`)",
        "09/send-blocked-after-aligned-barrier": _STOPPED_SENDER,
        "09/sub-blocked-by-barrier-events": _STOPPED_SENDER,
        "09/sub-blocked-by-barrier-flushed-data": _STOPPED_SENDER,
        "09/partition-consumers-notified-pipelined": "`ResultPartitionConsumableNotifier`",
        "10/sm-timeout-keeps-slots": "slots requested and released as needed (dynamic resources)",
    }
)
"""The mechanism by area and id of each case; the mechanism is the first column of the row in `docs/flink.md`."""


def difference(area: str, case_id: str) -> str | None:
    """Return the mechanism that differs; None if the case must hold."""
    return DIFFERENCES.get(f"{area}/{case_id}")
