"""Messages that may get lost, come twice or come late, and why the protocol must stand it.

In one process no message gets lost by itself. These tables hold what two systems that know each other only by
heartbeats and retries would have to live with, and timers of which each can be done without. An actor that is cut off
from the others is given up when it has been silent for too long; its messages arrive when it is no longer known.
"""

from __future__ import annotations

from flykka.actors.checkpoint_coordinator.actor import CheckpointCoordinator
from flykka.actors.job_master.actor import JobMaster
from flykka.actors.resource_manager.actor import ResourceManager
from flykka.actors.task.actor import Task
from flykka.actors.task_manager.actor import TaskManager
from flykka.messages.checkpointing.checkpoint import AcknowledgeCheckpoint, DeclineCheckpoint, NotifyCheckpointAborted
from flykka.messages.control.heartbeat import Heartbeat, HeartbeatRequest, JobMasterHeartbeat
from flykka.messages.control.registration import RegisterJobMaster, RegisterTaskManager
from flykka.messages.tasks.exchange import AlignmentTimeoutDue
from flykka.messages.tasks.task import (
    AcknowledgeDeployments,
    CancelTask,
    IdleDue,
    LatencyMarkerDue,
    MetricsDue,
    ReportTaskMetrics,
    SubmitTask,
)
from flykka.messages.wire.message import Message
from flykka.simulation.network import Arrival

LOST: dict[Arrival, str] = {
    (HeartbeatRequest, TaskManager): "the next one is an interval away, and several fit into the timeout",
    (Heartbeat, ResourceManager): "as the request",
    (Heartbeat, JobMaster): "as the request",
    (HeartbeatRequest, JobMaster): "as to a TaskManager",
    (JobMasterHeartbeat, ResourceManager): "as the request",
    (RegisterTaskManager, ResourceManager): "a TaskManager registers there again until it is answered",
    (RegisterJobMaster, ResourceManager): "a JobMaster too",
    (AcknowledgeCheckpoint, JobMaster): "the checkpoint times out",
    (DeclineCheckpoint, JobMaster): "as the acknowledgement",
    (ReportTaskMetrics, JobMaster): "nobody decides by it, and the next one has the same counters",
    (SubmitTask, TaskManager): "nobody acknowledges it, and the attempt fails",
    (AcknowledgeDeployments, JobMaster): "what reports no state in time either fails, and is cancelled where it runs",
}
DOUBLED: dict[Arrival, str] = {
    (HeartbeatRequest, TaskManager): "a heartbeat more",
    (Heartbeat, ResourceManager): "as the request",
    (Heartbeat, JobMaster): "as the request",
    (HeartbeatRequest, JobMaster): "as to a TaskManager",
    (JobMasterHeartbeat, ResourceManager): "as the request",
    (RegisterTaskManager, ResourceManager): "a retry may cross the answer",
    (RegisterJobMaster, ResourceManager): "as that of a TaskManager",
    (AcknowledgeCheckpoint, CheckpointCoordinator): "its task has acknowledged, or the checkpoint is complete",
    (DeclineCheckpoint, CheckpointCoordinator): "the checkpoint is gone",
    (NotifyCheckpointAborted, Task): "an abort is of a checkpoint by its number",
    (CancelTask, Task): "a task that is being cancelled is",
    (ReportTaskMetrics, JobMaster): "counters are totals",
    (SubmitTask, TaskManager): "the attempt was submitted before",
    (AcknowledgeDeployments, JobMaster): "the deployment is acknowledged",
}
TIMERS: dict[Arrival, str] = {
    (AlignmentTimeoutDue, Task): "the checkpoint stays aligned",
    (IdleDue, Task): "the source counts as busy",
    (LatencyMarkerDue, Task): "latency is not told",
    (MetricsDue, Task): "counters are told with the next reason",
}
HEARTBEATS: frozenset[type[Message]] = frozenset({HeartbeatRequest, Heartbeat, JobMasterHeartbeat})
"""Messages that are late where only heartbeats are."""
