"""The same failure again and again: told whole the first time, then counted, and less and less often."""

from __future__ import annotations

from collections import Counter

from flykka.actors.machines.restart.repeated_failures import FailureSignature, failure_signature
from flykka.messages.checkpointing.checkpoint import CheckpointDeclineReason, CheckpointFailure
from flykka.messages.control.job import CheckpointAborted, CheckpointCompleted, JobRestored, JobStatus, JobStatusChanged
from flykka.messages.wire.failure import SerializedThrowable
from flykka.messages.wire.message import Message
from flykka.runtime.repeated_log import is_reported

_OF_A_RESTART = frozenset({JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.CREATED, JobStatus.RUNNING})


class SameFailures:
    """Same failures of one job since its last checkpoint; messages about the answer to one are not told either."""

    def __init__(self) -> None:
        self._times: Counter[FailureSignature] = Counter()
        self._is_untold = False

    def count(self, task_name: str, cause: SerializedThrowable) -> tuple[int, bool]:
        """Count a failure; return its count, and whether to report it, see `is_reported`."""
        signature = failure_signature(task_name.rpartition(" (")[0], cause)
        if signature is None:
            self._is_untold = False
            return 1, True
        self._times[signature] += 1
        times = self._times[signature]
        self._is_untold = not is_reported(times)
        return times, not self._is_untold

    def hides(self, message: Message) -> bool:
        """Return True if the message only tells of the answer to a failure that was not told."""
        match message:
            case CheckpointCompleted():
                self._times.clear()
                self._is_untold = False
                return False
            case JobStatusChanged(status=status):
                return self._is_untold and status in _OF_A_RESTART
            case CheckpointAborted(failure=CheckpointFailure(times=times)):
                return not is_reported(times)
            case CheckpointAborted(reason=reason):
                return self._is_untold and reason is CheckpointDeclineReason.JOB_FAILOVER_REGION
            case JobRestored():
                return self._is_untold
            case _:
                return False
