"""Transition tables of machines: each contains every phase, and a transition that is not in its table raises."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import product

import pytest

from flykka.actors.errors import IllegalTransitionError
from flykka.actors.job_manager.managed_job import JOB_PHASE_MOVES, JobPhase
from flykka.actors.machines.checkpoint.completed_store import CLOSING_MOVES, ClosingPhase
from flykka.actors.machines.checkpoint.final_checkpoint import FINAL_MOVES, FinalPhase
from flykka.actors.machines.checkpoint.pending import PENDING_MOVES, PendingPhase
from flykka.actors.machines.exchange.input_channel import CHANNEL_MOVES, ChannelState
from flykka.actors.machines.rescaling.adaptive_scheduler import RESCALE_MOVES, RescalePhase
from flykka.actors.machines.slots.slot_table import TASK_SLOT_MOVES, TaskSlotState
from flykka.actors.machines.slots.task_manager_slots import SLOT_MOVES, SlotState
from flykka.actors.machines.sources.source_coordinator import DISCOVERY_MOVES, DiscoveryPhase
from flykka.actors.machines.states import next_phase

Moves = Mapping[Enum, tuple[Enum, ...]]

TABLES = pytest.mark.parametrize(
    ("moves", "phases"),
    [
        pytest.param(moves, phases, id=phases.__name__)
        for moves, phases in (
            (JOB_PHASE_MOVES, JobPhase),
            (CLOSING_MOVES, ClosingPhase),
            (FINAL_MOVES, FinalPhase),
            (PENDING_MOVES, PendingPhase),
            (CHANNEL_MOVES, ChannelState),
            (RESCALE_MOVES, RescalePhase),
            (SLOT_MOVES, SlotState),
            (TASK_SLOT_MOVES, TaskSlotState),
            (DISCOVERY_MOVES, DiscoveryPhase),
        )
    ],
)


@TABLES
def test_every_phase_has_a_row_that_does_not_list_itself(moves: Moves, phases: type[Enum]) -> None:
    assert list(moves) == list(phases)
    assert all(phase not in targets for phase, targets in moves.items())


@TABLES
def test_every_phase_except_the_first_is_reachable(moves: Moves, phases: type[Enum]) -> None:
    reached = {target for targets in moves.values() for target in targets}

    assert set(phases) - reached <= {next(iter(phases))}


@TABLES
def test_a_transition_that_is_not_in_the_table_raises(moves: Moves, phases: type[Enum]) -> None:
    for phase, target in product(phases, phases):
        if target is phase or target in moves[phase]:
            assert next_phase(moves, phase, target) is target
        else:
            with pytest.raises(IllegalTransitionError, match=f"{phase.name} and cannot become {target.name}"):
                next_phase(moves, phase, target)
