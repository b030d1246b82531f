"""A TaskManager as an actor, between a ResourceManager and a JobMaster that the case controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flykka.actors.machines.slots.slot_table import OFFER_TIMEOUT_MS, TaskSlotState
from flykka.actors.task_manager.actor import TaskManager
from flykka.messages.control.registration import (
    AcknowledgeRegistration,
    DisconnectTaskManager,
    Heartbeat,
    HeartbeatRequest,
    RegisterTaskManager,
)
from flykka.messages.control.slots import (
    AcceptSlots,
    AllocateSlot,
    AllocateSlotConfirmed,
    FailSlot,
    OfferSlots,
    SlotAvailable,
)
from flykka.messages.wire.ids import AllocationId, LeaderSessionId, SlotId, slot_id
from flykka.runtime.testing.seeded import SeededSystem
from tests.actors.peer import Probe
from tests.actors.task_manager_cluster import HERE, JM_SESSION, JOB, RESOURCE_MANAGER_SESSION, TaskManagerCluster
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

_INTERVAL_MS, _TIMEOUT_MS = 100_000, 300_000
"""The heartbeat interval and timeout, which are long compared with all other timers."""
_LATER_SESSION = LeaderSessionId("later-job-master-session")


class _Seen(TaskManager):
    def state_of(self, allocation: str) -> TaskSlotState | None:
        slots = {status.allocation_id: status.slot_id for status in self._table.report().slots}
        slot = slots.get(AllocationId(allocation))
        return None if slot is None else self._table.slot_states[slot]


class TaskManagerCase:
    """A TaskManager that is by default registered at the ResourceManager and, with its first slot, at the JobMaster."""

    def __init__(self, case: Case) -> None:
        given, steps = case["given"], case["steps"]
        only_known_words("given", given, {"kind", "slots", "registered"})
        self._system = SeededSystem(1)
        self._slots = given.get("slots", 1)
        self._cluster = TaskManagerCluster(self._system, kind=_Seen, slots=self._slots)
        self._resource_manager = self._cluster.resource_manager
        self._registrations: list[RegisterTaskManager] = []
        self._at_job_manager: list[RegisterTaskManager] = []
        self._offers: list[OfferSlots] = []
        self._disconnects: dict[str, list[object]] = {"job manager": [], "resource manager": []}
        self._failed: list[str] = []
        self._freed: list[SlotAvailable] = []
        self._confirmed: list[str] = []
        self._outcome = ""
        self._allocations = 0
        self._welcomes_at_once = all(step["do"] != "job_manager_found" for step in steps)
        if given.get("registered", True) and all(step["do"] != "registered_at_resource_manager" for step in steps):
            self._register()

    def do(self, step: Mapping[str, Any]) -> None:
        only_known_words("step", step, _STEP)
        match step["do"]:
            case "allocate" | "slot_requested":
                self._allocate(step["allocation"], step["index"])
            case "job_manager_found":
                self._find_job_manager()
                if "accepts" in step:
                    self._accept(*step["accepts"])
            case "job_manager_gained_leadership":
                self._allocate("another" if step.get("same") else "first", 0)
            case "job_manager_lost_leadership":
                self._allocate("for the later leader", 0, session=_LATER_SESSION)
            case "submit_task":
                self._cluster.submit("task", step["allocation"])
                self._outcome = "accepted" if self._cluster.tasks() else "rejected"
            case "offer_answer" if step.get("answer") == "timeout":
                self._system.advance(OFFER_TIMEOUT_MS)
            case "offer_answer":
                self._accept(*step["accepts"])
            case "registered_at_resource_manager":
                self._on_registered(step)
            case "resource_manager_disconnects":
                self._replace_resource_manager()
            case "heartbeat":
                request = HeartbeatRequest(origin=self._resource_manager.ref)
                self._resource_manager.send(self._cluster.task_manager, request, RESOURCE_MANAGER_SESSION)
            case "heartbeat_from_job_manager":
                self._accept_all()
                known = tuple(AllocationId(each) for each in step["knows"].values())
                self._cluster.send(HeartbeatRequest(origin=self._cluster.job_master.ref, allocations=known))
            case "heartbeat_timeout":
                self._let_time_out(step["of"])
            case unknown:
                raise UnknownWordError(unknown)

    def holds(self, word: str, wanted: Any) -> bool:
        self._listen()
        seen = self._seen()
        match word:
            case "outcome":
                return self._outcome == wanted
            case "active":
                return all(seen.state_of(each) is TaskSlotState.ACTIVE for each in wanted)
            case "free":
                return [index for index, holder in self._reported().items() if holder is None] == wanted
            case "slots":
                return {str(index): holder for index, holder in self._reported().items()} == wanted
            case "task_ran":
                return bool(self._cluster.tasks()) is wanted
            case "offers_sent":
                return len(self._heard_offers()) == wanted
            case "offered":
                return len({offer.allocation_id for each in self._heard_offers() for offer in each.offers}) == wanted
            case "registrations":
                return len(self._registrations) == wanted
            case "registrations_at_job_manager" | "connections_established":
                return len(self._at_job_manager) == wanted
            case "slot_report_sent":
                return (self._registrations[-1].slot_report is not None) is wanted
            case "failed_at_job_manager":
                return sorted(self._failed) == sorted(wanted)
            case "reported_free_to_resource_manager":
                # A case may give a slot's number and its holder, or only the holder.
                has_numbers = bool(wanted) and isinstance(wanted[0], list)
                numbered = sorted([_index(freed.slot_id), freed.allocation_id] for freed in self._freed)
                names = sorted(freed.allocation_id for freed in self._freed)
                return (numbered if has_numbers else names) == sorted(wanted)
            case "told_job_manager" | "told_resource_manager":
                whom = word.removeprefix("told_").replace("_", " ")
                return wanted == "disconnect" and bool(self._disconnects[whom])
            case _:
                raise UnknownWordError(word)

    # The environment

    def _listen(self) -> None:
        job_master, resource_manager = self._cluster.job_master, self._resource_manager
        self._registrations += resource_manager.received(RegisterTaskManager)
        self._at_job_manager += job_master.received(RegisterTaskManager)
        self._offers += job_master.received(OfferSlots)
        self._disconnects["job manager"] += job_master.received(DisconnectTaskManager)
        self._disconnects["resource manager"] += resource_manager.received(DisconnectTaskManager)
        self._failed += [failed.allocation_id for failed in job_master.received(FailSlot)]
        self._freed += resource_manager.received(SlotAvailable)
        self._confirmed += [each.allocation_id for each in resource_manager.received(AllocateSlotConfirmed)]

    def _heard_offers(self) -> list[OfferSlots]:
        self._listen()
        return self._offers

    def _seen(self) -> _Seen:
        cell = self._system.cells.find(self._cluster.task_manager.path)
        assert cell is not None
        actor = cell.instance
        assert isinstance(actor, _Seen)
        return actor

    def _reported(self) -> dict[int, str | None]:
        self._resource_manager.received(Heartbeat)
        request = HeartbeatRequest(origin=self._resource_manager.ref)
        self._resource_manager.send(self._cluster.task_manager, request, RESOURCE_MANAGER_SESSION)
        report = self._resource_manager.received(Heartbeat)[-1].slot_report
        assert report is not None
        return {_index(status.slot_id): status.allocation_id for status in report.slots}

    def _acknowledgement(self, session: LeaderSessionId, *, of_job: bool) -> AcknowledgeRegistration:
        return AcknowledgeRegistration(
            leader_session_id=session,
            job_id=JOB if of_job else None,
            heartbeat_interval_ms=_INTERVAL_MS,
            heartbeat_timeout_ms=_TIMEOUT_MS,
        )

    def _register(self) -> None:
        answer = self._acknowledgement(RESOURCE_MANAGER_SESSION, of_job=False)
        self._resource_manager.send(self._cluster.task_manager, answer)
        self._listen()

    def _on_registered(self, step: Mapping[str, Any]) -> None:
        if step.get("slot_report") == "fails":
            # The report is part of the registration, so a failed report is not acknowledged.
            self._listen()
            while len(self._registrations) < 2:
                self._system.advance(100)
                self._listen()
        else:
            self._register()

    def _allocate(self, allocation: str, index: int, session: LeaderSessionId = JM_SESSION) -> None:
        self._listen()
        self._allocations += 1
        request = AllocateSlot(
            slot_id=slot_id(HERE, index),
            job_id=JOB,
            allocation_id=AllocationId(allocation),
            job_master=self._cluster.job_master.ref,
            job_leader_session_id=session,
        )
        self._resource_manager.send(self._cluster.task_manager, request, RESOURCE_MANAGER_SESSION)
        self._listen()
        # A request that was refused admission is not reported.
        self._outcome = "accepted" if allocation in self._confirmed else "error"
        if self._welcomes_at_once and self._outcome == "accepted":
            self._welcome()

    def _find_job_manager(self) -> None:
        if self._allocations == 0:
            self._allocate("found", 0)
            self._welcome()
            self._accept("found")
        else:
            self._welcome()

    def _welcome(self) -> None:
        self._cluster.send(self._acknowledgement(JM_SESSION, of_job=True))
        self._listen()

    def _accept(self, *allocations: str) -> None:
        for offer in self._heard_offers():
            mine = {each.allocation_id for each in offer.offers}
            accepted = tuple(AllocationId(each) for each in allocations if each in mine)
            self._cluster.send(AcceptSlots(job_id=JOB, accepted=accepted, offer=offer.offer))

    def _accept_all(self) -> None:
        answered = -1
        while answered != len(self._heard_offers()):
            answered = len(self._offers)
            self._accept(*(offer.allocation_id for offers in self._offers for offer in offers.offers))

    def _replace_resource_manager(self) -> None:
        self._listen()
        self._system.kill(self._resource_manager.ref)
        self._system.run_until_idle()
        self._resource_manager = Probe(self._system, "resource-manager", RESOURCE_MANAGER_SESSION)
        while len(self._registrations) < 2:
            self._system.advance(100)
            self._listen()

    def _let_time_out(self, whom: str) -> None:
        """Let one of the two peers time out, while the other requests heartbeats."""
        for _ in range(_TIMEOUT_MS // _INTERVAL_MS + 1):
            self._system.advance(_INTERVAL_MS)
            if whom == "job manager":
                request = HeartbeatRequest(origin=self._resource_manager.ref)
                self._resource_manager.send(self._cluster.task_manager, request, RESOURCE_MANAGER_SESSION)
            self._listen()
            if self._disconnects[whom]:
                break


def _index(slot: SlotId) -> int:
    return int(slot.rpartition("/")[2])


_STEP = {"do", "want", "index", "allocation", "answer", "accepts", "slot_report", "knows", "of", "same"}
