"""Bugs planted in the code that reads several channels: watermarks, barriers, in-flight data, and joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flykka.actors.machines.attempt import inputs
from flykka.actors.machines.attempt.source import AlignedReading
from flykka.actors.machines.exchange.checkpoint_barrier_handler import BarrierAction, BarrierAligner
from flykka.actors.machines.exchange.effects import PersistInFlight
from flykka.actors.machines.exchange.input_gate import InputGate
from flykka.actors.machines.exchange.watermarks import WatermarkValve
from flykka.actors.machines.joins.interval_segments import IntervalSegments
from flykka.actors.machines.state.keyed_state import StatePart
from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.operators.join import Side
from flykka.spark_bridge.operators.keyed_store import KeyedStore


def a_barrier_does_not_block_its_channel(patch: pytest.MonkeyPatch) -> None:
    """Data after an aligned barrier is read before the other barriers have arrived."""

    def read_on(_self: InputGate, _channel: int) -> None: ...

    patch.setattr(InputGate, "block", read_on)


def the_watermark_is_the_maximum_of_the_inputs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WatermarkValve, "_minimum", lambda valve: valve._max_ms)
    patch.setattr(WatermarkValve, "check", lambda _: None)


def a_restored_task_has_no_watermark(patch: pytest.MonkeyPatch) -> None:
    """Rows that were late before a restart are accepted after the restart, until the next watermark arrives."""
    patch.setattr(inputs, "restored_input_watermark_ms", lambda _: WATERMARK_MIN)


def an_aligned_source_ignores_its_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AlignedReading, "is_too_far_ahead", False)


def a_snapshot_does_not_wait_for_the_last_channel(patch: pytest.MonkeyPatch) -> None:
    complete = BarrierAligner._complete

    def hasty(self: BarrierAligner, alignment: Any) -> list[BarrierAction]:
        alignment.missing.discard(max(self._open))
        return complete(self, alignment)

    patch.setattr(BarrierAligner, "_complete", hasty)


def in_flight_data_of_other_inputs_is_lost(patch: pytest.MonkeyPatch) -> None:
    """In-flight data that unaligned barriers overtake is stored for the first input only."""
    start = InputGate.start_persisting

    def of_the_first(self: InputGate, checkpoint_id: int) -> list[PersistInFlight]:
        return [each for each in start(self, checkpoint_id) if each.gate == 0]

    patch.setattr(InputGate, "start_persisting", of_the_first)


def a_join_drops_rows_too_early(patch: pytest.MonkeyPatch) -> None:
    """Rows are not retained for later rows of the other side."""
    begin: Any = IntervalSegments.__init__

    def forgetful(self: IntervalSegments[Any], *sides: Any, **wanted: Any) -> None:
        begin(self, *sides, **wanted)
        self.retained_ms = 0

    patch.setattr(IntervalSegments, "__init__", forgetful)
    patch.setattr(IntervalSegments, "check", lambda _: None)


def a_restored_join_lacks_its_right_side(patch: pytest.MonkeyPatch) -> None:
    restore = KeyedStore.restore

    def without_right(self: KeyedStore[Any], parts: Sequence[StatePart]) -> None:
        restore(self, () if self._name == Side.RIGHT else parts)

    patch.setattr(KeyedStore, "restore", without_right)


def unmatched_rows_are_emitted_repeatedly(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IntervalSegments, "_open_from", lambda _self, _segment: None)
