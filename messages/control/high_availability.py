"""Values that a JobManager stores for the next leader, and the messages of the leader election.

A leader's messages carry its session, and a receiver drops messages of a former leader: see `kernel.leader_session`.
"""

from __future__ import annotations

from flykka.messages.control.job import ListeningBehaviour
from flykka.messages.control.rescaling import JobResourceRequirements
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message, Value, message, value


@value("high_availability.leader_session")
class LeaderSession(Value):
    """The session that may write. Every write expects to find its own session in the store."""

    leader_session_id: LeaderSessionId


@value("high_availability.leader_information")
class LeaderInformation(Value):
    """The leader's address, its session, and the URL of its REST interface if it has one."""

    address: str
    leader_session_id: LeaderSessionId
    rest_address: str | None = None


@value("high_availability.application_run")
class ApplicationRun(Value):
    """A run of an application, possibly by several drivers in turn. Concluded if the application ended normally."""

    run_id: str
    is_concluded: bool = False


@value("high_availability.submitted_job_graph")
class SubmittedJobGraph(Value):
    """An accepted job, with everything that its JobMaster needs.

    `driver` is the process that has its code. `starts` counts its earlier JobMasters, so that attempt numbers never
    repeat. `resource_requirements` were set by a client while the job ran (None: by no client).
    """

    job_graph: JobGraph
    listening_behaviour: ListeningBehaviour = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES
    restore_path: str | None = None
    allow_non_restored_state: bool = False
    driver: str = ""
    starts: int = 0
    resource_requirements: JobResourceRequirements | None = None


@value("high_availability.checkpoint_pointer")
class CheckpointPointer(Value):
    """The location of the metadata of a completed checkpoint. Writing the pointer completes the checkpoint."""

    checkpoint_id: int
    path: str


@value("high_availability.checkpoints_owner")
class CheckpointsOwner(Value):
    """The only coordinator of a job that may complete checkpoints."""

    owner: str


@value("high_availability.next_checkpoint_id")
class NextCheckpointId(Value):
    """The lowest checkpoint id that has not been drawn yet."""

    checkpoint_id: int


@message("leader.grant")
class GrantLeadership(Message):
    """leader election -> JobManager: the receiver leads, under this session, until its leadership is revoked.

    `waited_for` is the run of the application that was in progress when the JobManager started to wait.
    """

    leader_session_id: LeaderSessionId
    waited_for: str | None = None


@message("leader.revoke")
class RevokeLeadership(Message):
    """leader election -> JobManager: the receiver no longer leads under this session; another process may lead."""

    leader_session_id: LeaderSessionId


@message("leader.job_manager_address")
class JobManagerLeaderAddress(Message):
    """JobManager -> TaskManagers: the JobManager at `address` leads, under this session.

    Existing JobMasters belong to a former leader. Without an address no leader is known.
    """

    address: str | None = None
    leader_session_id: LeaderSessionId | None = None
