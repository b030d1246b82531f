"""Which attempts share a slot (Flink's SlotSharingGroup and SharedSlot).

Subtask i of every vertex of a sharing group runs in slot i of that group, so a job needs, for each group, as many slots
as its largest parallelism. A shared slot is given back when the last of its attempts has come to an end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NewType

from flykka.messages.ids import AllocationId, ExecutionAttemptId, TaskManagerId
from flykka.messages.ref import Ref

SlotRequestId = NewType("SlotRequestId", str)
"""`<group>/<index>/<version>`: a slot asked for by one version of the ExecutionGraph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedSlot:
    """A slot that the job holds, and where it is."""

    allocation_id: AllocationId
    task_manager_id: TaskManagerId
    task_manager: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSlots:
    """Get the job one slot for each request."""

    request_ids: tuple[SlotRequestId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnSlot:
    """The slot that was asked for, whether it is there or not, is needed no more."""

    request_id: SlotRequestId


@dataclass(slots=True, kw_only=True)
class _SharedSlot:
    request_id: SlotRequestId
    slot: AssignedSlot | None = None
    # A dict for its order: what follows from it must not depend on hashes.
    occupants: dict[ExecutionAttemptId, None] = field(default_factory=dict)


class SlotSharing:
    """The slots of one job: asked for, held, and by whom."""

    def __init__(self) -> None:
        self._by_request: dict[SlotRequestId, _SharedSlot] = {}
        self._by_attempt: dict[ExecutionAttemptId, _SharedSlot] = {}
        self.waiting = 0
        """How many slots are asked for and not there."""

    def request(self, version: int, attempts: Iterable[tuple[str, int, ExecutionAttemptId]]) -> RequestSlots:
        """Ask for the slots of these attempts, each given with its sharing group and subtask."""
        asked: dict[SlotRequestId, _SharedSlot] = {}
        for group, subtask, attempt in attempts:
            request_id = SlotRequestId(f"{group}/{subtask}/{version}")
            shared = asked.setdefault(request_id, _SharedSlot(request_id=request_id))
            shared.occupants[attempt] = None
            self._by_attempt[attempt] = shared
        self._by_request.update(asked)
        self.waiting += len(asked)
        return RequestSlots(request_ids=tuple(asked))

    def assign(self, request_id: SlotRequestId, slot: AssignedSlot) -> tuple[ExecutionAttemptId, ...]:
        """The slot of a request that waits: the attempts that wait with it."""
        shared = self._by_request[request_id]
        assert shared.slot is None, f"{request_id} has a slot already"
        shared.slot = slot
        self.waiting -= 1
        return tuple(shared.occupants)

    def is_waiting(self, request_id: SlotRequestId) -> bool:
        """Whether the slot is asked for and not there."""
        shared = self._by_request.get(request_id)
        return shared is not None and shared.slot is None

    def leave(self, attempt: ExecutionAttemptId) -> ReturnSlot | None:
        """Take an attempt out of its slot, which the last one returns."""
        shared = self._by_attempt.pop(attempt)
        del shared.occupants[attempt]
        if shared.occupants:
            return None
        del self._by_request[shared.request_id]
        self.waiting -= shared.slot is None
        return ReturnSlot(request_id=shared.request_id)

    def occupants(self, request_id: SlotRequestId) -> tuple[ExecutionAttemptId, ...]:
        """The attempts in the slot of a request, or waiting for it."""
        shared = self._by_request.get(request_id)
        return tuple(shared.occupants) if shared else ()

    def check(self) -> None:
        """Assert that the indexes agree."""
        shared_slots = list(self._by_request.values())
        assert self.waiting == sum(shared.slot is None for shared in shared_slots)
        assert all(shared.occupants for shared in shared_slots), "an empty slot was not given back"
        assert sorted(self._by_attempt) == sorted(attempt for shared in shared_slots for attempt in shared.occupants)
