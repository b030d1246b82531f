"""The cases that speak of what this project does not have, each with the reason.

Everything else has to hold. A case comes here only where nothing of the product could be what it speaks of; a rule of
ours that differs from Flink's is no reason.
"""

from __future__ import annotations

from types import MappingProxyType

LIMIT = 40
"""How many cases may be here."""

_ALIGNMENT_LIMIT = "blocked channels are not read, so an alignment holds nothing that a limit could be set on"
_SINGLE_GATE = "the trigger gate of before Flink 1.11, which declined requests; here they wait by precedence"
_LOCKS = "a store is not shared between leaders: one that takes a job over begins with what is in the storage"
_PREFERENCE = "a savepoint is never in the store, so nothing has to be preferred to it"
_SUSPENSION = "nothing suspends a job but the end of its JobMaster, which ends everything of the job with it"
_OWN_THREADS = "a source takes turns with the operators of its task: none has a thread of its own"
_ALWAYS_SHARED = "a program has no such setting: slots are shared, and each edge says how it is exchanged"
_NO_TIMEOUT = "a batch goes out when it is made: there is no buffer timeout"
_RETRIES = "Flink has removed the number of execution retries and their delay: a restart strategy says both"

NOT_APPLICABLE = MappingProxyType(
    {
        "01/abort-pending-rearms-periodic-trigger": _SINGLE_GATE,
        "01/store-ha-suspend-keeps": _LOCKS,
        "01/store-two-stores-shared-lock": _LOCKS,
        "01/completed-lists-match-different-order": _LOCKS,
        "01/completed-lists-match-same-job-other-id": _LOCKS,
        "01/store-prefer-checkpoint-over-newer-savepoints": _PREFERENCE,
        "01/store-restore-newest-savepoint-by-default": _PREFERENCE,
        "01/job-suspended-shuts-coordinator": _SUSPENSION,
        "02/align-limit-break-checkpoint-at-alignment-limit": _ALIGNMENT_LIMIT,
        "03/job-retries-42-means-fixed": _RETRIES,
        "05/suspend-from-cancelling": _SUSPENSION,
        "05/suspend-from-restarting": _SUSPENSION,
        "05/suspend-while-restarting-aborts-it": _SUSPENSION,
        "06/chain-yielding-operator-after-legacy-source": _OWN_THREADS,
        "06/chain-blocking-between-chains-on": _ALWAYS_SHARED,
        "06/groups-none-when-disabled": _ALWAYS_SHARED,
        "06/buffer-timeout-inherit": _NO_TIMEOUT,
    }
)
"""The reason by area and id of the case."""


def not_applicable(area: str, case_id: str) -> str | None:
    """Why the case says nothing about this project; None where it has to hold."""
    return NOT_APPLICABLE.get(f"{area}/{case_id}")
