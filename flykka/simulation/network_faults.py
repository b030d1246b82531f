"""Which messages may get lost or come twice, and why the protocol must stand it.

In one process no message gets lost by itself. What is in these tables is what two systems that know each other only by
heartbeats and retries would have to live with, and timers of which each can be done without.
"""

from __future__ import annotations

from flykka.messages.checkpoint import AcknowledgeCheckpoint, DeclineCheckpoint, NotifyCheckpointAborted
from flykka.messages.exchange import AlignmentTimeoutDue
from flykka.messages.heartbeat import Heartbeat, HeartbeatRequest
from flykka.messages.message import Message
from flykka.messages.registration import RegisterTaskManager
from flykka.messages.task import CancelTask, IdleDue, LatencyMarkerDue, MetricsDue, ReportTaskMetrics

LOST: dict[type[Message], str] = {
    HeartbeatRequest: "the next one is an interval away, and several fit into the timeout",
    Heartbeat: "as the request",
    RegisterTaskManager: "a TaskManager registers again until it is answered",
    DeclineCheckpoint: "the checkpoint that nobody declines times out",
    AcknowledgeCheckpoint: "as the decline; what was written for it is deleted when the task says so again, or never",
    ReportTaskMetrics: "nobody decides by it, and the next one has the same counters",
}
DOUBLED: dict[type[Message], str] = {
    HeartbeatRequest: "a heartbeat more",
    Heartbeat: "as the request",
    RegisterTaskManager: "a retry may cross the answer",
    DeclineCheckpoint: "the checkpoint is gone, and the second decline with it",
    AcknowledgeCheckpoint: "the second one finds its task acknowledged, or the checkpoint complete",
    NotifyCheckpointAborted: "an abort is of a checkpoint by its number",
    CancelTask: "a task that is being cancelled is",
    ReportTaskMetrics: "counters are totals",
}
TIMERS: dict[type[Message], str] = {
    AlignmentTimeoutDue: "the checkpoint stays aligned",
    IdleDue: "the source counts as busy",
    LatencyMarkerDue: "latency is not told",
    MetricsDue: "counters are told with the next reason",
}
