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
    """The sessions of the registered actors; used in the turns of one actor only."""

    def __init__(self, context: ActorContext) -> None:
        self._context = context
        self._sessions: dict[Ref, LeaderSessionId] = {}

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._sessions

    def open_session(self, ref: Ref) -> LeaderSessionId:
        """The session of the actor, under which both sides speak: a new one where it has none yet."""
        session = self._sessions.get(ref)
        if session is None:
            session = self._sessions[ref] = LeaderSessionId(self._context.new_id("registration"))
            self._context.accept_session(session)
        return session

    def close_session(self, ref: Ref) -> None:
        """Watch the actor no longer, and hear nothing more of it."""
        self._context.unwatch(ref)
        session = self._sessions.pop(ref, None)
        if session is not None:
            self._context.revoke_session(session)

    def tell(self, ref: Ref, message: Message) -> None:
        """Tell the actor under its session; one that was refused has none, and is told plainly."""
        session = self._sessions.get(ref)
        (ref if session is None else Gateway(ref, session)).tell(message)
