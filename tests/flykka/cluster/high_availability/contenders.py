"""A contender that records its notifications, for a test on another thread to wait for."""

from __future__ import annotations

from queue import Empty, Queue

from flykka.actors.high_availability.services import HighAvailabilityServices, LeaderStore
from flykka.messages.wire.ids import LeaderSessionId

PATIENCE = 60.0
"""A time limit in seconds. Notifications arrive at once; only a failing test waits this long."""


class Contender:
    def __init__(self) -> None:
        self._notifications: Queue[tuple[str, object]] = Queue()

    def granted(self, session: LeaderSessionId) -> None:
        self._notifications.put(("granted", session))

    def revoked(self, session: LeaderSessionId) -> None:
        self._notifications.put(("revoked", session))

    def failed(self, error: BaseException) -> None:
        self._notifications.put(("failed", error))

    def wait_granted(self) -> LeaderSessionId:
        session = self._wait("granted")
        assert isinstance(session, str)
        return LeaderSessionId(session)

    def wait_revoked(self) -> LeaderSessionId:
        session = self._wait("revoked")
        assert isinstance(session, str)
        return LeaderSessionId(session)

    def wait_failed(self) -> BaseException:
        error = self._wait("failed")
        assert isinstance(error, BaseException)
        return error

    @property
    def has_no_more_notifications(self) -> bool:
        return self._notifications.empty()

    def _wait(self, what: str) -> object:
        try:
            kind, said = self._notifications.get(timeout=PATIENCE)
        except Empty:
            raise AssertionError(f"it was not {what}") from None
        assert kind == what, (kind, said)
        return said


def lead(services: HighAvailabilityServices) -> LeaderStore:
    contender = Contender()
    services.contend(contender)
    return services.store(contender.wait_granted())
