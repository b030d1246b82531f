"""The adapters of all areas."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.barrier_alignment import adapter as barrier_alignment
from tests.conformance.case_files import Case
from tests.conformance.checkpoint_coordinator import adapter as checkpoint_coordinator
from tests.conformance.failover_regions import adapter as failover_regions
from tests.conformance.job_graph import adapter as job_graph
from tests.conformance.key_groups import adapter as key_groups
from tests.conformance.network import adapter as network
from tests.conformance.restart_strategies import adapter as restart_strategies
from tests.conformance.slots import adapter as slots
from tests.conformance.states import adapter as states
from tests.conformance.windows import adapter as windows

ADAPTERS: dict[str, Callable[[Case], None]] = {
    "01": checkpoint_coordinator.run_case,
    "03": restart_strategies.run_case,
    "04": failover_regions.run_case,
    "05": states.run_case,
    "06": job_graph.run_case,
    "02": barrier_alignment.run_case,
    "07": key_groups.run_case,
    "08": windows.run_case,
    "09": network.run_case,
    "10": slots.run_case,
}
"""Adapters by area number. An adapter raises `AssertionError` if a machine differs from the case, and
`UnknownWordError` if the case uses a word that the adapter does not know.
"""
