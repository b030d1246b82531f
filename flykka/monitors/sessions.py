"""Checks that messages of ended leader sessions are no longer handled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flykka.messages.checkpointing import checkpoint
from flykka.messages.control import registration, slots
from flykka.messages.control.registration import Heartbeat, HeartbeatRequest, JobMasterHeartbeat
from flykka.messages.kernel.leader_session import LeaderSessionMessage
from flykka.messages.tasks import task
from flykka.messages.tasks.operator_event import GlobalAggregateResults, OperatorEvents, SendOperatorEvents
from flykka.messages.tasks.source import AddSplits, AlignWatermark, NoMoreSplits, ReportedWatermark, RequestSplits
from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation
from flykka.runtime.signals import Terminated
from flykka.runtime.trace.records import Turn

_UNDER_SESSIONS: tuple[type[Message], ...] = (
    slots.AcceptSlots,
    checkpoint.AcknowledgeCheckpoint,
    task.AcknowledgeDeployments,
    AddSplits,
    AlignWatermark,
    slots.AllocateSlot,
    slots.AllocateSlotConfirmed,
    slots.AllocateSlotRefused,
    slots.CancelSlotRequest,
    task.CancelTask,
    checkpoint.DeclineCheckpoint,
    registration.DisconnectJobMaster,
    registration.DisconnectResourceManager,
    registration.DisconnectTaskManager,
    slots.FreeSlot,
    GlobalAggregateResults,
    Heartbeat,
    HeartbeatRequest,
    JobMasterHeartbeat,
    NoMoreSplits,
    checkpoint.NotifyCheckpointAborted,
    checkpoint.NotifyCheckpointComplete,
    task.NotifyEndOfData,
    slots.OfferSlots,
    OperatorEvents,
    task.ReportTaskMetrics,
    ReportedWatermark,
    slots.RequestSlot,
    RequestSplits,
    SendOperatorEvents,
    slots.SlotAvailable,
    slots.SlotRequestFailed,
    task.SubmitTask,
    checkpoint.TriggerCheckpoint,
    task.UpdateTaskExecutionState,
)
"""Messages between ResourceManager, JobMasters and TaskManagers under the session of a registration."""


class SessionMonitor(ConversationMonitor):
    name = "sessions"

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[Ref, set[LeaderSessionId]] = {}
        self._over: dict[Ref, set[LeaderSessionId]] = {}
        """The ended sessions whose messages each receiver must refuse."""
        self._leading: dict[Ref, LeaderSessionId] = {}
        """The session of each JobMaster as leader of its job, which all registrations at the JobMaster share."""

    def received(self) -> Mapping[type, OnReceived]:
        return {Terminated: self._on_end, **dict.fromkeys(_UNDER_SESSIONS, self._on_message)}

    def sent(self) -> Mapping[type, OnSent]:
        ends = (
            registration.DisconnectJobMaster,
            registration.DisconnectResourceManager,
            registration.DisconnectTaskManager,
        )
        return {
            **dict.fromkeys(ends, self._on_leave),
            registration.AcknowledgeRegistration: self._on_acknowledged,
            registration.JobMasterRegistrationSuccess: self._on_success,
            slots.AllocateSlot: self._on_allocated,
            registration.RegisterTaskManager: self._on_register,
        }

    def ended(self, ref: Ref) -> None:
        self._over.pop(ref, None)

    def _on_acknowledged(self, turn: Turn, to: Ref, message: registration.AcknowledgeRegistration) -> None:
        self._begins(turn.recipient, to, message.leader_session_id)
        self._begins(to, turn.recipient, message.registration_session or message.leader_session_id)

    def _on_success(self, turn: Turn, to: Ref, message: registration.JobMasterRegistrationSuccess) -> None:
        self._begins(turn.recipient, to, message.leader_session_id)
        self._begins(to, turn.recipient, message.leader_session_id)

    def _on_allocated(self, _turn: Turn, to: Ref, message: slots.AllocateSlot) -> None:
        self._leading[message.job_master] = message.job_leader_session_id
        self._begins(message.job_master, to, message.job_leader_session_id)

    def _on_register(self, turn: Turn, to: Ref, _message: registration.RegisterTaskManager) -> None:
        """Resume the session of a JobMaster. A TaskManager that has slots for it registers again."""
        if to in self._leading:
            self._begins(to, turn.recipient, self._leading[to])

    def _begins(self, speaker: Ref, hearer: Ref, session: LeaderSessionId) -> None:
        self._sessions.setdefault(speaker, set()).add(session)
        self._over.setdefault(hearer, set()).discard(session)

    def _on_end(self, turn: Turn, message: Terminated) -> None:
        self._ends(message.ref, turn.recipient)

    def _on_leave(self, turn: Turn, to: Ref, _message: Message) -> None:
        self._ends(to, turn.recipient)

    def _ends(self, speaker: Ref, hearer: Ref) -> None:
        self._over.setdefault(hearer, set()).update(self._sessions.get(speaker, ()))

    def _on_message(self, turn: Turn, _message: Message) -> Iterable[Violation]:
        wrapper = turn.message
        if not isinstance(wrapper, LeaderSessionMessage):
            return ()
        if wrapper.leader_session_id not in self._over.get(turn.recipient, ()):
            return ()
        return [self.violation(turn, f"is handled under {wrapper.leader_session_id}, which has ended")]
