"""The registrations at a ResourceManager, each with a leader session of its own.

What comes under the session of one that has ended is a dead letter: late messages of a target that was given up,
or has a successor, change nothing.
"""

from __future__ import annotations

from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.runtime.context import ActorContext
from flykka.runtime.leader_session import Gateway


class Registrations:
    """By who has registered; used in the turns of one actor only."""

    def __init__(self, context: ActorContext) -> None:
        self._context = context
        self._sessions: dict[Ref, LeaderSessionId] = {}

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._sessions

    def begin(self, ref: Ref) -> LeaderSessionId:
        """The session under which both sides speak from now on, or have spoken since they did so first."""
        session = self._sessions.get(ref)
        if session is None:
            session = self._sessions[ref] = LeaderSessionId(self._context.new_id("registration"))
            self._context.accept_session(session)
        return session

    def end(self, ref: Ref) -> None:
        """Nobody watches over it, and nothing that it says is heard."""
        self._context.unwatch(ref)
        session = self._sessions.pop(ref, None)
        if session is not None:
            self._context.revoke_session(session)

    def tell(self, ref: Ref, message: Message) -> None:
        """Say something to who is registered."""
        Gateway(ref, self._sessions[ref]).tell(message)
