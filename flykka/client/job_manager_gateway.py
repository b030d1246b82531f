"""Asks the JobManager on behalf of the user's threads: the present one, or its successor."""

from __future__ import annotations

import time
from collections.abc import Callable

from flykka.actors.high_availability.services import HighAvailabilityServices
from flykka.messages.control.high_availability import LeaderInformation
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.errors import ActorDeadError, AskTimeoutError
from flykka.runtime.ref import ActorRef
from flykka.runtime.system import ActorSystem

_PAUSE = 0.05
"""Seconds between two looks for a JobManager, while there is none."""


class JobManagerGateway:
    """Any thread may use it, but those of actors. `services` tell of leaders in other processes."""

    def __init__(
        self, system: ActorSystem, job_manager: ActorRef, services: HighAvailabilityServices | None = None
    ) -> None:
        self._system = system
        self._first = job_manager
        self._services = services

    def other_leader(self) -> LeaderInformation | None:
        """The leader that this JobManager waits for; None where it leads itself, or nobody is known to.

        Raises:
            StoreUnavailableError: the store of high availability does not answer.
        """
        return None if self._services is None else self._services.other_leader()

    def leads(self) -> bool:
        """True if this process leads. Raises as `other_leader`."""
        return self._services is None or self._services.leads()

    @property
    def ref(self) -> ActorRef:
        """The JobManager that lives now; the first one, if none does."""
        return self._system.find(self._first.path) or self._first

    def ask(self, make: Callable[[Ref], Message], timeout: float) -> Message:
        """Ask what `make` makes of the ref to answer to, once more where the JobManager has died on it.

        What it has begun for a question dies with it, so that a question may be asked again.

        Raises:
            AskTimeoutError: there is no answer within `timeout` seconds.
            ActorDeadError: the cluster has ended.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                answer: Message = self.ref.ask(make, timeout=max(_PAUSE, deadline - time.monotonic()))
                return answer
            except ActorDeadError:
                if self._system.terminated.done():
                    raise
                if time.monotonic() >= deadline:
                    raise AskTimeoutError(f"no JobManager in {timeout} s") from None
                time.sleep(_PAUSE)
