"""The requests for slots that wait, by what they need: the first that a slot is large enough for comes first.

Requests differ in few sizes. So the next one is found at once, however many wait for slots that are larger than those
that become free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flykka.actors.machines.slots.dynamic_slots import ChosenSlot
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.messages.wire.ids import AllocationId, JobId, SlotId


@dataclass(slots=True, kw_only=True)
class PendingSlotRequest:
    """A job wants a slot: it waits, or `slot_id` is PENDING for it since `given_at_ms` (Flink's PendingSlotRequest)."""

    job_id: JobId
    allocation_id: AllocationId
    resources: ResourceSpec
    since_ms: int
    order: int = 0
    slot_id: SlotId | None = None
    given_at_ms: int = 0


class PendingSlotRequests:
    """The waiting requests. A lower `order` comes first."""

    def __init__(self) -> None:
        self._by_size: dict[ResourceSpec, dict[AllocationId, PendingSlotRequest]] = {}
        self._last, self._first = 0, 0

    def __len__(self) -> int:
        return sum(map(len, self._by_size.values()))

    def __iter__(self) -> Iterator[PendingSlotRequest]:
        every = [request for requests in self._by_size.values() for request in requests.values()]
        return iter(sorted(every, key=lambda request: request.order))

    def __contains__(self, request: PendingSlotRequest) -> bool:
        return request.allocation_id in self._by_size.get(request.resources, {})

    def add(self, request: PendingSlotRequest) -> None:
        """It waits behind all others."""
        self._last += 1
        request.order = self._last
        self._by_size.setdefault(request.resources, {})[request.allocation_id] = request

    def add_first(self, request: PendingSlotRequest) -> None:
        """It waits before all others."""
        self._first -= 1
        request.order = self._first
        of_size = self._by_size.pop(request.resources, {})
        self._by_size[request.resources] = {request.allocation_id: request, **of_size}

    def discard(self, request: PendingSlotRequest) -> None:
        """It does not wait."""
        self._by_size.get(request.resources, {}).pop(request.allocation_id, None)

    def sizes(self) -> tuple[tuple[ResourceSpec, int], ...]:
        """The sizes that are waited for, and how many of each."""
        return tuple((size, len(requests)) for size, requests in self._by_size.items() if requests)

    def next(self, choose: Callable[[ResourceSpec], ChosenSlot | None]) -> tuple[PendingSlotRequest, ChosenSlot] | None:
        """The first that a slot is chosen for, and the slot."""
        served: tuple[PendingSlotRequest, ChosenSlot] | None = None
        for size, requests in self._by_size.items():
            request = next(iter(requests.values()), None)
            if request is None or (served is not None and served[0].order < request.order):
                continue
            chosen = choose(size)
            if chosen is not None:
                served = request, chosen
        return served
