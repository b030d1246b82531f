"""The cases about features that flykka does not have, each with the reason.

All other cases must hold. A case belongs here only if no part of the product could be its subject. A rule of flykka
that differs from Flink's is not a reason.
"""

from __future__ import annotations

from types import MappingProxyType

LIMIT = 60

_ALIGNMENT_LIMIT = "blocked channels are not read, so an alignment holds nothing that a limit could be set on"
_SINGLE_GATE = "the trigger gate of before Flink 1.11, which declined requests; here they wait by precedence"
_LOCKS = "a store is not shared between leaders: one that takes a job over begins with what is in the storage"
_PREFERENCE = "a savepoint is never in the store, so nothing has to be preferred to it"
_SUSPENSION = "nothing suspends a job but the end of its JobMaster, which ends everything of the job with it"
_OWN_THREADS = "a source takes turns with the operators of its task: none has a thread of its own"
_ALWAYS_SHARED = "a program has no such setting: slots are shared, and each edge says how it is exchanged"
_NO_TIMEOUT = "a batch goes out when it is made: there is no buffer timeout"
_WITHOUT_ROWS = "a batch without rows is not sent"
_NO_RELEASE = "a gate ends with its task, and with the bridge everything that it holds: nothing is released one by one"
_KNOWN = "a task is deployed when its producers have their slots: it knows all of them, and asks them at once"
_FORCED_RELEASE = "a result goes when nobody is left who may read it: no option ties that to its being read once"
_SERVED = "a subpartition sends what credit allows: no reader polls it, with or without a credit"
_OPEN_BUFFERS = "a batch is whole when it is queued: no buffer is open, filled up or flushed"
_BYTE_BUFFERS = "a batch is not cut into buffers of bytes, and shares none with another"
_TASK_EVENTS = "consumers send no events up but credits and cancellations, and these go to the task itself"
_RETRIES = "Flink has removed the number of execution retries and their delay: a restart strategy says both"

NOT_APPLICABLE = MappingProxyType(
    {
        "01/abort-pending-rearms-periodic-trigger": _SINGLE_GATE,
        "01/store-two-stores-shared-lock": _LOCKS,
        "01/store-ha-suspend-keeps": _SUSPENSION,
        "01/completed-lists-match-different-order": _LOCKS,
        "01/completed-lists-match-same-job-other-id": _LOCKS,
        "01/completed-lists-match-same-order": _LOCKS,
        "01/completed-lists-match-same-id-other-job": _LOCKS,
        "01/store-prefer-checkpoint-over-newer-savepoints": _PREFERENCE,
        "01/store-restore-newest-savepoint-by-default": _PREFERENCE,
        "01/job-suspended-shuts-coordinator": _SUSPENSION,
        "02/align-limit-break-checkpoint-at-alignment-limit": _ALIGNMENT_LIMIT,
        "02/align-limit-alignment-limit-with-queued-alignments": _ALIGNMENT_LIMIT,
        "03/job-retries-42-means-fixed": _RETRIES,
        "03/job-retries-zero-means-none": _RETRIES,
        "05/suspend-from-cancelling": _SUSPENSION,
        "05/suspend-from-restarting": _SUSPENSION,
        "05/suspend-while-restarting-aborts-it": _SUSPENSION,
        "05/suspend-from-created": _SUSPENSION,
        "05/suspend-from-deploying": _SUSPENSION,
        "05/suspend-from-running": _SUSPENSION,
        "05/suspend-from-failing": _SUSPENSION,
        "05/suspend-from-failed": _SUSPENSION,
        "05/suspend-from-canceled": _SUSPENSION,
        "06/chain-yielding-operator-after-legacy-source": _OWN_THREADS,
        "06/chain-blocking-between-chains-on": _ALWAYS_SHARED,
        "06/groups-none-when-disabled": _ALWAYS_SHARED,
        "06/buffer-timeout-inherit": _NO_TIMEOUT,
        "09/recv-empty-data": _WITHOUT_ROWS,
        "09/recv-data-after-release": _NO_RELEASE,
        "09/recv-no-credit-after-release": _NO_RELEASE,
        "09/request-local-partition-released": _NO_RELEASE,
        "09/request-update-before-first-request": _KNOWN,
        "09/request-unknown-channels-resolved": _KNOWN,
        "09/request-buffers-unknown": _KNOWN,
        "09/request-backwards-event-before-known": _KNOWN,
        "09/send-overrun-is-an-error": _SERVED,
        "09/sub-flush-incomplete-behind-complete": _OPEN_BUFFERS,
        "09/sub-two-incomplete-is-an-error": _OPEN_BUFFERS,
        "09/sub-empty-incomplete": _OPEN_BUFFERS,
        "09/sub-partial-buffer-can-be-read": _OPEN_BUFFERS,
        "09/sub-incomplete-behind-complete": _OPEN_BUFFERS,
        "09/sub-flush-single-incomplete": _OPEN_BUFFERS,
        "09/sub-basic-produce-consume": _OPEN_BUFFERS,
        "09/sub-backlog-is-what-can-be-read-plain": _OPEN_BUFFERS,
        "09/sub-backlog-is-what-can-be-read-flushed": _OPEN_BUFFERS,
        "09/sub-blocked-by-barrier-unflushed-data": _OPEN_BUFFERS,
        "09/sub-blocked-by-barrier-two-buffers": _OPEN_BUFFERS,
        "09/sub-availability-after-priority": _OPEN_BUFFERS,
        "09/sub-several-empty": _WITHOUT_ROWS,
        "09/sub-read-after-parent-release": _SERVED,
        "09/sub-unaligned-barrier-overtakes": _OPEN_BUFFERS,
        "09/gate-released-while-waiting": _NO_RELEASE,
        "09/gate-unknown-channel-declines-checkpoint": _KNOWN,
        "09/writer-broadcast-event-after-data": _BYTE_BUFFERS,
        "09/partition-release-policy-blocking-forced": _FORCED_RELEASE,
        "09/task-events-to-unregistered-partition": _TASK_EVENTS,
        "09/task-events-double-register": _TASK_EVENTS,
    }
)


def not_applicable(area: str, case_id: str) -> str | None:
    """Return the reason why the case does not apply to flykka; None if it must hold."""
    return NOT_APPLICABLE.get(f"{area}/{case_id}")
