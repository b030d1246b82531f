"""An unspecified resource is neither required nor limited. Specified resources are compared one by one."""

from __future__ import annotations

import pytest

from flykka.actors.machines.slots.resource_profile import (
    UNSPECIFIED,
    ResourceBudget,
    cut_for,
    fits,
    resources_text,
    share_of,
    task_managers_needed,
    total_of,
)
from flykka.messages.graph.job_graph import ResourceSpec

HALF = ResourceSpec(cpu_millis=500, heap_mib=512, managed_mib=64)
WHOLE = ResourceSpec(cpu_millis=1_000, heap_mib=1_024, managed_mib=128)


@pytest.mark.parametrize(
    ("required", "slot", "is_enough"),
    [
        (UNSPECIFIED, HALF, True),
        (WHOLE, UNSPECIFIED, True),
        (WHOLE, WHOLE, True),
        (WHOLE, HALF, False),
        (ResourceSpec(managed_mib=65), HALF, False),
        (ResourceSpec(cpu_millis=2_000), ResourceSpec(heap_mib=1), True),
    ],
)
def test_a_slot_serves_requests_within_its_resources(
    required: ResourceSpec, slot: ResourceSpec, is_enough: bool
) -> None:
    assert fits(required, slot) == is_enough


def test_equal_shares_of_slots_never_exceed_the_total() -> None:
    share = share_of(ResourceSpec(cpu_millis=1_000, heap_mib=100), 3)

    assert share == ResourceSpec(cpu_millis=333, heap_mib=33)


def test_unspecified_resources_of_a_dynamic_slot_have_defaults() -> None:
    assert cut_for(ResourceSpec(cpu_millis=250), HALF) == ResourceSpec(cpu_millis=250, heap_mib=512, managed_mib=64)


def test_resources_are_described_as_text() -> None:
    assert resources_text(WHOLE) == "1 core, 1024 MiB of memory, 128 MiB of managed memory"
    assert resources_text(UNSPECIFIED) == "no declared resources"


def test_a_budget_grants_at_most_the_remainder() -> None:
    budget = ResourceBudget(WHOLE)
    budget.take(HALF)

    assert budget.remaining == HALF
    assert budget.slots_left(HALF, at_most=9) == 1
    assert budget.has_room_for(HALF)
    assert not budget.has_room_for(total_of([HALF, ResourceSpec(cpu_millis=1)]))


def test_an_undeclared_resource_is_unlimited() -> None:
    budget = ResourceBudget(ResourceSpec(heap_mib=100))
    budget.take(ResourceSpec(cpu_millis=64_000, heap_mib=40))

    assert budget.slots_left(ResourceSpec(cpu_millis=64_000), at_most=7) == 7
    assert budget.slots_left(ResourceSpec(cpu_millis=64_000, heap_mib=40), at_most=7) == 1


@pytest.mark.parametrize(
    ("sizes", "needed"),
    [
        ([], 0),
        ([(HALF, 2)], 1),
        ([(HALF, 3)], 2),
        ([(HALF, 1), (WHOLE, 1), (HALF, 1)], 2),
        ([(total_of([WHOLE, HALF]), 1)], 0),
    ],
)
def test_slots_are_packed_into_as_few_task_managers_as_possible(
    sizes: list[tuple[ResourceSpec, int]], needed: int
) -> None:
    assert task_managers_needed(sizes, WHOLE) == needed
