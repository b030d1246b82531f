"""Area 01: runs each case on its machine."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.case_files import Case, UnknownWordError
from tests.conformance.checkpoint_coordinator import (
    failures_case,
    gate_case,
    hooks_case,
    pending_case,
    restore_case,
    statistics_case,
    store_case,
)
from tests.conformance.checkpoint_coordinator.coordinator_case import CoordinatorCase

COMPONENTS: dict[str, Callable[[Case], None]] = {
    "coordinator": lambda case: CoordinatorCase(case).run(),
    "job": lambda case: CoordinatorCase(case).run(),
    "request_gate": gate_case.run_case,
    "failure_manager": failures_case.run_case,
    "pending": pending_case.run_case,
    "completed": store_case.run_completed,
    "retention": store_case.run_retention,
    "store": store_case.run_store,
    "id_counter": store_case.run_id_counter,
    "hooks": hooks_case.run_case,
    "restore": restore_case.run_case,
    "stats_counts": statistics_case.run_counts,
    "stats_history": statistics_case.run_tracker,
    "stats_tracker": statistics_case.run_tracker,
    "stats_summary": statistics_case.run_summary,
}


def run_case(case: Case) -> None:
    component = case["given"]["component"]
    if component not in COMPONENTS:
        raise UnknownWordError(f"component {component!r}")
    COMPONENTS[component](case)
