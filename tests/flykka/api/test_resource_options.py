"""A few settings declare a TaskManager's resources; the others are derived."""

from __future__ import annotations

import pytest

from flykka.actors.machines.exchange.shuffle_environment import NetworkSettings
from flykka.api.resource_options import declared_resources, resource_spec
from flykka.cluster.cluster_settings import TaskManagerResources
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import ResourceSpec
from flykka.runtime.memory_size import MemorySize

MIB = 1 << 20


def test_a_task_manager_declares_no_resources_by_default() -> None:
    declared = declared_resources(None, None, None, NetworkSettings(), None)

    assert declared == (TaskManagerResources(), NetworkSettings())
    assert str(declared[0]) == ""


def test_memory_is_divided_by_flinks_fractions_by_default() -> None:
    resources, network = declared_resources(2, "1gb", None, NetworkSettings(), 4)

    assert resources == TaskManagerResources(cpu_millis=2_000, memory_mib=1_024, managed_mib=409, network_mib=102)
    assert network == NetworkSettings(network_buffers=102, network_memory_bytes=102 * MIB)
    assert resources.slots_total == ResourceSpec(cpu_millis=2_000, heap_mib=513, managed_mib=409)
    assert str(resources) == "2 cores, 1024 MiB of memory (409 managed, 102 network, 513 other)"


def test_explicit_memory_sizes_are_used_unchanged() -> None:
    said = NetworkSettings(network_buffers=7, network_memory_bytes=64 * MIB)

    resources, network = declared_resources(None, "512mb", "256mb", said, None)

    assert network == said
    assert resources.slots_total == ResourceSpec(heap_mib=192, managed_mib=256)


def test_managed_memory_can_be_limited_alone() -> None:
    resources, network = declared_resources(None, None, "64mb", NetworkSettings(), None)

    assert (resources.slots_total, network) == (ResourceSpec(managed_mib=64), NetworkSettings())
    assert str(resources) == "64 MiB of managed memory"


@pytest.mark.parametrize(
    ("cpu", "memory", "managed", "slots", "refusal"),
    [
        (0, None, None, None, "cpu of a TaskManager must be a number of cores from 0.001, not 0"),
        (True, None, None, None, "not True"),
        (None, "much", None, None, "memory of a TaskManager 'much' is not of the form '128MB'"),
        (None, "100mb", "95mb", 2, "of which 95 are managed and 10 are for the network: no memory is left for 2 slots"),
        (None, "10mb", None, 6, "no memory is left for 6 slots"),
    ],
)
def test_impossible_resources_are_refused(
    cpu: float, memory: MemorySize, managed: MemorySize, slots: int, refusal: str
) -> None:
    with pytest.raises(ProgramError, match=refusal):
        declared_resources(cpu, memory, managed, NetworkSettings(), slots)


def test_sizes_are_rounded_up_to_the_smallest_requestable_unit() -> None:
    assert resource_spec(0.25, 1, "1025kb", "x") == ResourceSpec(cpu_millis=250, heap_mib=1, managed_mib=2)
