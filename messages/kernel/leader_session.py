"""The envelope that fences leaders: a receiver drops the messages of a former leader."""

from __future__ import annotations

from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message, message


@message("leader.session")
class LeaderSessionMessage(Message):
    """gateway -> kernel filter: `message` was sent under the leader session `leader_session_id`."""

    leader_session_id: LeaderSessionId
    message: Message
