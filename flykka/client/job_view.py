"""The job as its client knows it without asking."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from flykka.client.job_execution_result import JobExecutionResult
from flykka.messages.control.job import JobResultFailure, JobResultSuccess, JobStatus
from flykka.messages.monitoring.job_details import JobDetails
from flykka.messages.wire.ids import JobId
from flykka.runtime.futures.future import Future


@dataclass(slots=True, kw_only=True)
class JobView:
    """Written by the client's actor, for any thread to read. Only the details are noted by those who ask for them."""

    outcome: Future[JobExecutionResult]
    submitted: Future[JobId]
    attached: Future[JobId]
    """Set where a client that was detached, or comes from elsewhere, hears of the job from now on."""
    details: JobDetails
    """The last answer of the job's tracker."""
    is_final: bool = False
    """True if these are the details of its end."""
    news: int = 0
    """The number of messages received: while it does not change, only clocks have."""
    status: JobStatus = JobStatus.CREATED
    failure: Exception | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, details: JobDetails | None) -> JobDetails:
        """Keep the details, if there are any and the job has not ended meanwhile; returns those that are kept."""
        with self._lock:
            if details is not None and not self.is_final:
                self.details = details
            return self.details

    def end_with(self, details: JobDetails) -> None:
        with self._lock:
            self.details, self.is_final = details, True

    def end_without_details(self, result: JobResultSuccess | JobResultFailure) -> None:
        """Nobody is left to say more than that it has ended."""
        with self._lock:
            match result:
                case JobResultSuccess(checkpoint_path=path, accumulators=final):
                    self.details = replace(
                        self.details, status=JobStatus.FINISHED, kept_checkpoint=path, accumulators=final
                    )
                case JobResultFailure(checkpoint_path=path, cause=cause, status=status):
                    self.details = replace(self.details, status=status, kept_checkpoint=path, last_failure=cause)
            self.is_final = True
