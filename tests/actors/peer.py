"""A probe in place of an actor of the cluster: it records messages under known sessions, and sends messages for the
test.
"""

from __future__ import annotations

from typing import TypeVar

from flykka.messages.checkpointing.checkpoint import TaskCheckpointMessages
from flykka.messages.control.registration import AcknowledgeRegistration, JobMasterRegistrationSuccess
from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.leader_session import Gateway
from flykka.runtime.props import Props
from flykka.runtime.testing.seeded import SeededSystem

M = TypeVar("M", bound=Message)


@message("test.utter")
class Utter(Message):
    """test -> probe: send this message to `receiver`, under a leader session if one is set."""

    receiver: Ref
    message: Message
    session: LeaderSessionId | None = None


class PeerActor(Actor):
    """Records messages under the sessions that it accepts, and sends messages when the test says so."""

    outside_state = True
    """True, because the test removes recorded messages between two turns."""

    def __init__(self, heard: list[Message], *sessions: LeaderSessionId) -> None:
        self._heard = heard
        self._sessions = sessions

    def pre_start(self) -> None:
        for session in self._sessions:
            self.context.accept_session(session)

    def handle_message(self, message: Message) -> None:
        match message:
            case Utter(receiver=receiver, message=uttered, session=None):
                receiver.tell(uttered)
            case Utter(receiver=receiver, message=uttered, session=session) if session is not None:
                Gateway(receiver, session).tell(uttered)
            case (
                AcknowledgeRegistration(leader_session_id=session)
                | JobMasterRegistrationSuccess(leader_session_id=session)
            ):
                self.context.accept_session(session)
                self._heard.append(message)
            case _:
                self._heard.append(message)


class Probe:
    """An actor at `/user/<name>` of a seeded system, and its recorded messages that the test has not read yet."""

    def __init__(self, system: SeededSystem, name: str, *sessions: LeaderSessionId) -> None:
        self._system = system
        self._heard: list[Message] = []
        self.ref = system.spawn(Props(PeerActor, self._heard, *sessions), name)
        system.run_until_idle()

    def send(self, receiver: Ref, message: Message, session: LeaderSessionId | None = None) -> None:
        self.ref.tell(Utter(receiver=receiver, message=message, session=session))
        self._system.run_until_idle()

    def received(self, kind: type[M]) -> list[M]:
        self._system.run_until_idle()
        wanted = [message for message in self._heard if isinstance(message, kind)]
        self._heard[:] = [message for message in self._heard if not isinstance(message, kind)]
        return wanted

    def recorded(self, kind: type[M]) -> list[M]:
        """Return the recorded messages of this class, unpacked from their envelopes, without removing them."""
        self._system.run_until_idle()
        unpacked = (
            each
            for message in self._heard
            for each in (message.messages if isinstance(message, TaskCheckpointMessages) else (message,))
        )
        return [message for message in unpacked if isinstance(message, kind)]

    def expect(self, kind: type[M]) -> M:
        heard = self.received(kind)
        assert len(heard) == 1, f"expected one {kind.__name__}, heard {heard} and beside it {self._heard}"
        return heard[0]
