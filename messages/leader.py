"""Fencing: what a leader says carries its session, and a receiver drops what a former leader said."""

from __future__ import annotations

from flykka.messages.ids import LeaderSessionId
from flykka.messages.message import Message, message


@message("leader.session")
class LeaderSessionMessage(Message):
    """gateway -> kernel filter: `message` was said under the leader session `leader_session_id`."""

    leader_session_id: LeaderSessionId
    message: Message
