"""Fencing: what a leader says carries its session, and a receiver drops what a former leader said."""

from __future__ import annotations

from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message, message


@message("leader.session")
class LeaderSessionMessage(Message):
    """gateway -> kernel filter: `message` was said under the leader session `leader_session_id`."""

    leader_session_id: LeaderSessionId
    message: Message


@message("leader.grant")
class GrantLeadership(Message):
    """leader election -> JobManager: you lead, under this session, until it is revoked.

    `waited_for` is the run of the application that was in progress when you began to wait.
    """

    leader_session_id: LeaderSessionId
    waited_for: str | None = None


@message("leader.revoke")
class RevokeLeadership(Message):
    """leader election -> JobManager: you lead no more under this session; another one may do so already."""

    leader_session_id: LeaderSessionId


@message("leader.job_manager_address")
class JobManagerLeaderAddress(Message):
    """JobManager -> TaskManagers: the one at `address` leads, under this session.

    JobMasters that were there before are those of a leader who is none any more. Without an address nobody leads, as
    far as is known.
    """

    address: str | None = None
    leader_session_id: LeaderSessionId | None = None
