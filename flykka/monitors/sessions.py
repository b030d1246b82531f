"""Monitors that a message of a session that is over is not handled any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flykka.messages.checkpointing.checkpoint import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flykka.messages.control.high_availability import LeaderSessionMessage
from flykka.messages.control.registration import (
    AcknowledgeRegistration,
    DisconnectJobMaster,
    DisconnectResourceManager,
    DisconnectTaskManager,
    Heartbeat,
    HeartbeatRequest,
    JobMasterHeartbeat,
    JobMasterRegistrationSuccess,
    RegisterTaskManager,
)
from flykka.messages.control.slots import (
    AcceptSlots,
    AllocateSlot,
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    CancelSlotRequest,
    FreeSlot,
    OfferSlots,
    RequestSlot,
    SlotAvailable,
    SlotRequestFailed,
)
from flykka.messages.tasks.operator_event import GlobalAggregateResults, OperatorEvents, SendOperatorEvents
from flykka.messages.tasks.source import AddSplits, AlignWatermark, NoMoreSplits, ReportedWatermark, RequestSplits
from flykka.messages.tasks.task import (
    AcknowledgeDeployments,
    CancelTask,
    NotifyEndOfData,
    ReportTaskMetrics,
    SubmitTask,
    UpdateTaskExecutionState,
)
from flykka.messages.wire.ids import LeaderSessionId
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref
from flykka.monitors.monitor import ConversationMonitor, OnReceived, OnSent, Violation
from flykka.runtime.signals import Terminated
from flykka.runtime.trace.records import Turn

_UNDER_SESSIONS: tuple[type[Message], ...] = (
    AcceptSlots,
    AcknowledgeCheckpoint,
    AcknowledgeDeployments,
    AddSplits,
    AlignWatermark,
    AllocateSlot,
    AllocateSlotConfirmed,
    AllocateSlotRefused,
    CancelSlotRequest,
    CancelTask,
    DeclineCheckpoint,
    DisconnectJobMaster,
    DisconnectResourceManager,
    DisconnectTaskManager,
    FreeSlot,
    GlobalAggregateResults,
    Heartbeat,
    HeartbeatRequest,
    JobMasterHeartbeat,
    NoMoreSplits,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    NotifyEndOfData,
    OfferSlots,
    OperatorEvents,
    ReportTaskMetrics,
    ReportedWatermark,
    RequestSlot,
    RequestSplits,
    SendOperatorEvents,
    SlotAvailable,
    SlotRequestFailed,
    SubmitTask,
    TriggerCheckpoint,
    UpdateTaskExecutionState,
)
"""Messages between ResourceManager, JobMasters and TaskManagers while a registration holds."""


class SessionMonitor(ConversationMonitor):
    """Watches who has registered where, and what is still heard of those who have ended, or were taken leave of."""

    name = "sessions"

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[Ref, set[LeaderSessionId]] = {}
        """Under which each speaks."""
        self._over: dict[Ref, set[LeaderSessionId]] = {}
        """The sessions that each has to refuse."""
        self._leading: dict[Ref, LeaderSessionId] = {}
        """The session under which each JobMaster leads its job, for every registration there."""

    def received(self) -> Mapping[type, OnReceived]:
        return {Terminated: self._on_end, **dict.fromkeys(_UNDER_SESSIONS, self._on_message)}

    def sent(self) -> Mapping[type, OnSent]:
        """Handlers of the beginnings of sessions, and of the messages that end one for their sender."""
        leave = dict.fromkeys((DisconnectJobMaster, DisconnectResourceManager, DisconnectTaskManager), self._on_leave)
        return {
            **leave,
            AcknowledgeRegistration: self._on_acknowledged,
            JobMasterRegistrationSuccess: self._on_success,
            AllocateSlot: self._on_allocated,
            RegisterTaskManager: self._on_register,
        }

    def ended(self, ref: Ref) -> None:
        self._over.pop(ref, None)

    def _on_acknowledged(self, turn: Turn, to: Ref, message: AcknowledgeRegistration) -> Iterable[Violation]:
        self._begins(turn.recipient, to, message.leader_session_id)
        self._begins(to, turn.recipient, message.registration_session or message.leader_session_id)
        return ()

    def _on_success(self, turn: Turn, to: Ref, message: JobMasterRegistrationSuccess) -> Iterable[Violation]:
        self._begins(turn.recipient, to, message.leader_session_id)
        self._begins(to, turn.recipient, message.leader_session_id)
        return ()

    def _on_allocated(self, _turn: Turn, to: Ref, message: AllocateSlot) -> Iterable[Violation]:
        self._leading[message.job_master] = message.job_leader_session_id
        self._begins(message.job_master, to, message.job_leader_session_id)
        return ()

    def _on_register(self, turn: Turn, to: Ref, _message: RegisterTaskManager) -> Iterable[Violation]:
        """A TaskManager that left a silent JobMaster and holds slots for it comes back at once: it leads on."""
        if to in self._leading:
            self._begins(to, turn.recipient, self._leading[to])
        return ()

    def _begins(self, speaker: Ref, hearer: Ref, session: LeaderSessionId) -> None:
        self._sessions.setdefault(speaker, set()).add(session)
        self._over.setdefault(hearer, set()).discard(session)

    def _on_end(self, turn: Turn, message: Terminated) -> Iterable[Violation]:
        self._ends(message.ref, turn.recipient)
        return ()

    def _on_leave(self, turn: Turn, to: Ref, _message: Message) -> Iterable[Violation]:
        self._ends(to, turn.recipient)
        return ()

    def _ends(self, speaker: Ref, hearer: Ref) -> None:
        self._over.setdefault(hearer, set()).update(self._sessions.get(speaker, ()))

    def _on_message(self, turn: Turn, _message: Message) -> Iterable[Violation]:
        told = turn.message
        if not isinstance(told, LeaderSessionMessage):
            return ()
        if told.leader_session_id not in self._over.get(turn.recipient, ()):
            return ()
        return [self.violation(turn, f"is handled under {told.leader_session_id}, and that is over")]
