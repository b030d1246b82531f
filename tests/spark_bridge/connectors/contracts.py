"""The contract of sinks, in which an attempt dies behind each call in `make test-long` alone."""

from __future__ import annotations

import pytest

from flykka.connectors.testing import SinkContract
from flykka.spark_bridge.testing.contracts import _CALLS, _CHECKPOINTS

BEHIND = tuple(len(_CALLS) + _CALLS.index(call) + 1 for call in ("prepare", "complete", "commit"))
"""So many calls until the second checkpoint is prepared, complete, and published."""


class ShorterSinkContract(SinkContract):
    """Deaths in the second checkpoint, and the parallelism of three; a long run has all."""

    @pytest.mark.parametrize(
        "calls",
        [
            pytest.param(calls, marks=() if calls in BEHIND else pytest.mark.long)
            for calls in range(1, _CHECKPOINTS * len(_CALLS) + 1)
        ],
    )
    def test_no_row_is_lost_and_none_comes_twice_where_an_attempt_dies_behind_any_call(self, calls: int) -> None:
        super().test_no_row_is_lost_and_none_comes_twice_where_an_attempt_dies_behind_any_call(calls)

    @pytest.mark.parametrize("parallelism", [pytest.param(1, marks=pytest.mark.long), 3])
    def test_a_checkpoint_is_restored_at_another_parallelism(self, parallelism: int) -> None:
        super().test_a_checkpoint_is_restored_at_another_parallelism(parallelism)
