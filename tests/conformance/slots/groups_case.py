"""The number of slots that a job needs, and the subtasks that share a slot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from flykka.actors.machines.graph.deployment_descriptors import slot_request
from flykka.actors.machines.graph.execution_job_vertex import execution_job_vertices
from flykka.actors.machines.slots.execution_slot_allocator import ExecutionSlotAllocator
from flykka.actors.machines.slots.slot_requests import RequestSlots, SlotRequest
from flykka.actors.machines.slots.slot_sharing_groups import parallelism_for, slot_sharing_groups, slots_needed
from flykka.messages.graph.job_graph import JobVertex
from tests.actors.machines.graph.graphs import graph_of, vertex
from tests.actors.machines.slots.slot_pool_events import JOB, JOB_MASTER
from tests.conformance.case_files import Case, only_known_words

_ALONE = "alone:"
"""The prefix of a group with a single vertex, followed by the vertex's name."""


def check_slots_needed(case: Case) -> None:
    only_known_words("given", case["given"], {"kind", "vertices"})
    only_known_words("expect", case["expect"], {"slots"})
    assert slots_needed(_vertices(case["given"]["vertices"])) == case["expect"]["slots"]


def check_parallelism(case: Case) -> None:
    only_known_words("given", case["given"], {"kind", "vertices", "slots"})
    only_known_words("expect", case["expect"], {"parallelism"})
    found = parallelism_for(_vertices(case["given"]["vertices"]), case["given"]["slots"])
    assert found == case["expect"]["parallelism"]


def check_members(case: Case) -> None:
    only_known_words("given", case["given"], {"kind", "vertices", "edges"})
    only_known_words("expect", case["expect"], {"members", "without_group"})
    groups = slot_sharing_groups(_vertices(case["given"]["vertices"]))
    members = {name: sorted(each.name for each in of_group) for name, of_group in groups.items()}
    shared = {name: names for name, names in members.items() if not name.startswith(_ALONE)}
    alone = sorted(name.removeprefix(_ALONE) for name in members if name.startswith(_ALONE))
    assert shared == {name: sorted(names) for name, names in case["expect"]["members"].items()}
    assert alone == sorted(case["expect"]["without_group"])


def check_shared_slots(case: Case) -> None:
    given = case["given"]
    only_known_words(
        "given",
        given,
        {"kind", "vertices", "sharing_groups", "co_location", "co_location_groups", "edges", "added_later"},
    )
    only_known_words("expect", case["expect"], {"slots"})
    allocator = ExecutionSlotAllocator("allocation", JOB, JOB_MASTER)
    later = set(given.get("added_later", ()))
    requests = list(_requests(given))
    for part in ([r for r in requests if r.vertex_id not in later], [r for r in requests if r.vertex_id in later]):
        allocator.handle(RequestSlots(requests=tuple(part)), 0)
        allocator.check()
    slots: dict[str, list[str]] = {}
    for request in requests:
        shared = allocator.sharing.shared_slot_of(request.attempt)
        assert shared is not None
        slots.setdefault(shared.request_id, []).append(f"{request.vertex_id}{request.subtask}")
    assert sorted(map(sorted, slots.values())) == sorted(map(sorted, case["expect"]["slots"]))


def _requests(given: Mapping[str, Any]) -> Iterable[SlotRequest]:
    group_of = {name: f"g{number}" for number, names in enumerate(given["sharing_groups"]) for name in names}
    co_located = given.get("co_location", given.get("co_location_groups", ()))
    together = {name: f"c{n}" for n, names in enumerate(co_located) for name in names}
    edges = _edges(given)
    graph = graph_of(
        *(
            replace(vertex(name, parallelism, group=group_of[name]), co_location_group=together.get(name))
            for name, parallelism in given["vertices"].items()
        )
    )
    made = execution_job_vertices(graph, 0)
    attempts = {
        f"{name}{each.subtask}": each.execution.attempt for name in given["vertices"] for each in made[name].subtasks
    }
    for name in given["vertices"]:
        for each in made[name].subtasks:
            inputs = tuple(attempts[source] for source, target in edges if target == f"{name}{each.subtask}")
            yield replace(slot_request(made, each), inputs=inputs)


def _edges(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return all pairs of producers and consumers if the case says so, otherwise the edges of the case."""
    words = given["edges"]
    if words not in ("all to all", "two all-to-all edges"):
        return [(source, target) for source, target in words]
    (producer, producers), (consumer, consumers) = given["vertices"].items()
    pairs = [(f"{producer}{one}", f"{consumer}{other}") for one in range(producers) for other in range(consumers)]
    return pairs * (1 if words == "all to all" else 2)


def _vertices(words: Iterable[Mapping[str, Any]]) -> list[JobVertex]:
    made = []
    for word in words:
        only_known_words("vertex", word, {"name", "parallelism", "sharing_group"})
        name = word["name"]
        made.append(vertex(name, word["parallelism"], group=word["sharing_group"] or f"{_ALONE}{name}"))
    return made
