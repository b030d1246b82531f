"""A JobManager's part in the election: what it is told on other threads becomes messages to it."""

from __future__ import annotations

from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.messages.control.job_manager import LeaderElectionFailed
from flykka.messages.control.leader import GrantLeadership, RevokeLeadership
from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import serialized


class JobManagerContender:
    """Implements LeaderContender for the JobManager at `job_manager`."""

    def __init__(self, job_manager: Ref, waits_for: str | None) -> None:
        self._job_manager = job_manager
        self._waits_for = waits_for

    def granted(self, session: LeaderSessionId) -> None:
        """Tell it."""
        self._job_manager.tell(GrantLeadership(leader_session_id=session, waited_for=self._waits_for))

    def revoked(self, session: LeaderSessionId) -> None:
        """Tell it."""
        self._job_manager.tell(RevokeLeadership(leader_session_id=session))

    def failed(self, error: BaseException) -> None:
        """Tell it."""
        self._job_manager.tell(LeaderElectionFailed(cause=serialized(error)))


def contend(services: HighAvailabilityServices, job_manager: Ref) -> None:
    """Have the JobManager take part in the election. May block. Raises `HighAvailabilityError`."""
    before = services.last_run()
    in_progress = before is not None and not before.is_concluded
    waits_for = before.run_id if before is not None and in_progress else None
    services.contend(JobManagerContender(job_manager, waits_for))
