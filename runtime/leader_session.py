"""Leader-session fencing: messages of a former leader are dropped before any handler sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.messages.kernel.leader_session import LeaderSessionMessage

if TYPE_CHECKING:
    from flykka.messages.wire.ids import LeaderSessionId
    from flykka.messages.wire.message import Message
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell.cell import Cell
    from flykka.runtime.mailbox.envelope import Envelope


class Gateway:
    """A ref whose messages carry the leader's session (Flink's gateway)."""

    __slots__ = ("leader_session_id", "ref")

    def __init__(self, ref: Ref, leader_session_id: LeaderSessionId) -> None:
        self.ref = ref
        self.leader_session_id = leader_session_id

    def tell(self, message: Message) -> None:
        self.ref.tell(LeaderSessionMessage(leader_session_id=self.leader_session_id, message=message))

    def __repr__(self) -> str:
        return f"Gateway({self.ref}, {self.leader_session_id})"


_NONE: frozenset[LeaderSessionId] = frozenset()


class LeaderSessions:
    """The leader sessions that an actor accepts. There are none at first."""

    __slots__ = ("_accepted",)

    def __init__(self) -> None:
        self._accepted = _NONE

    def accept(self, leader_session_id: LeaderSessionId) -> None:
        self._accepted |= {leader_session_id}

    def revoke(self, leader_session_id: LeaderSessionId) -> None:
        self._accepted -= {leader_session_id}

    def clear(self) -> None:
        self._accepted = _NONE

    def unwrap(self, cell: Cell, message: LeaderSessionMessage, envelope: Envelope) -> Message | None:
        if message.leader_session_id in self._accepted:
            return message.message
        accepted = ", ".join(sorted(self._accepted)) or "none"
        reason = f"stale leader session {message.leader_session_id} (accepted: {accepted})"
        cell.system.dead_letters.reject(envelope, cell.ref, reason)
        return None
