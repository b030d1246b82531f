"""Area 10: runs each case on its machine, and checks its expectations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tests.conformance.case_files import Case, UnknownWordError, only_known_words
from tests.conformance.slots import groups_case
from tests.conformance.slots.allocator_case import SchedulingCase, SharedSlotCase
from tests.conformance.slots.manager_case import ManagerCase
from tests.conformance.slots.pool_case import PoolCase
from tests.conformance.slots.table_case import TableCase
from tests.conformance.slots.task_manager_case import TaskManagerCase


class Subject(Protocol):
    def do(self, step: Mapping[str, Any]) -> None: ...

    def holds(self, word: str, wanted: Any) -> bool: ...


_SUBJECTS: dict[str, Callable[[Case], Subject]] = {
    "scheduling": SchedulingCase,
    "slot_pool": PoolCase,
    "shared_slot_resources": SharedSlotCase,
    "slot_manager": ManagerCase,
    "slot_table": TableCase,
    "task_manager": TaskManagerCase,
}
_OF_A_GRAPH: dict[str, Callable[[Case], None]] = {
    "slots_needed": groups_case.check_slots_needed,
    "parallelism_for_slots": groups_case.check_parallelism,
    "sharing_group_members": groups_case.check_members,
    "shared_slots": groups_case.check_shared_slots,
}


def run_case(case: Case) -> None:
    kind = case["given"]["kind"]
    if kind in _OF_A_GRAPH:
        if case["steps"]:
            raise UnknownWordError(f"steps of {kind}: {case['steps']}")
        _OF_A_GRAPH[kind](case)
        return
    if kind not in _SUBJECTS:
        raise UnknownWordError(f"kind {kind!r}")
    subject = _SUBJECTS[kind](case)
    for step in case["steps"]:
        subject.do(step)
        for word, wanted in _wants(step).items():
            assert subject.holds(word, wanted), f"after {step}: {word} is not {wanted}"
    for word, wanted in case["expect"].items():
        if word == "all_wants_hold":
            only_known_words("expect", case["expect"], {"all_wants_hold"})
            continue
        assert subject.holds(word, wanted), f"at the end {word} is not {wanted}"


def _wants(step: Mapping[str, Any]) -> Mapping[str, Any]:
    want = step.get("want", {})
    return {"outcome": want} if isinstance(want, str) else want
