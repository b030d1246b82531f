"""Sink contracts without the cases that a sink's other tests cover; `make test` runs these contracts."""

from __future__ import annotations

import pytest

from flykka.connectors.testing import SinkContract
from flykka.spark_bridge.testing.contracts import _CALLS, _CHECKPOINTS

UNTIL_PREPARED = len(_CALLS) + _CALLS.index("prepare") + 1
"""The number of calls until the second checkpoint is prepared. The next attempt restores the first checkpoint and
repeats the later calls.
"""


class ShorterSinkContract(SinkContract):
    """The contract with one crash and a parallelism of three; long runs use the full contract."""

    @pytest.mark.parametrize(
        "calls",
        [
            pytest.param(calls, marks=() if calls == UNTIL_PREPARED else pytest.mark.long)
            for calls in range(1, _CHECKPOINTS * len(_CALLS) + 1)
        ],
    )
    def test_no_row_is_lost_or_duplicated_if_an_attempt_dies_after_any_call(self, calls: int) -> None:
        super().test_no_row_is_lost_or_duplicated_if_an_attempt_dies_after_any_call(calls)

    @pytest.mark.parametrize("parallelism", [pytest.param(1, marks=pytest.mark.long), 3])
    def test_a_checkpoint_is_restored_at_another_parallelism(self, parallelism: int) -> None:
        super().test_a_checkpoint_is_restored_at_another_parallelism(parallelism)


class ShortestSinkContract(ShorterSinkContract):
    """A contract for a sink that shares its writer with the Delta sink, whose tests cover other cases in each run."""

    @pytest.mark.long
    @pytest.mark.parametrize("parallelism", [1, 3])
    def test_a_checkpoint_is_restored_at_another_parallelism(self, parallelism: int) -> None:
        super().test_a_checkpoint_is_restored_at_another_parallelism(parallelism)

    @pytest.mark.long
    def test_a_repeated_commit_publishes_rows_once(self) -> None:
        super().test_a_repeated_commit_publishes_rows_once()

    @pytest.mark.long
    def test_a_restore_after_a_commit_publishes_no_row_twice(self) -> None:
        super().test_a_restore_after_a_commit_publishes_no_row_twice()

    @pytest.mark.long
    def test_an_abandoned_attempt_that_continues_changes_nothing(self) -> None:
        super().test_an_abandoned_attempt_that_continues_changes_nothing()

    @pytest.mark.long
    def test_a_replaced_process_publishes_no_rows(self) -> None:
        super().test_a_replaced_process_publishes_no_rows()
