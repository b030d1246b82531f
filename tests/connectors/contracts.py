"""The contract of sinks, in which an attempt dies behind each call in `make test-long` alone."""

from __future__ import annotations

import pytest

from flykka.connectors.testing import SinkContract
from flykka.spark_bridge.testing.contracts import _CALLS, _CHECKPOINTS

PREPARED = _CALLS.index("prepare") + 1
"""So many calls until the first checkpoint is prepared, and no checkpoint is complete."""


class ShorterSinkContract(SinkContract):
    """Deaths in the second checkpoint, and one in the first: a sink of files dies behind each call in every run."""

    @pytest.mark.parametrize(
        "calls",
        [
            pytest.param(calls, marks=() if calls == PREPARED or calls > len(_CALLS) else pytest.mark.long)
            for calls in range(1, _CHECKPOINTS * len(_CALLS) + 1)
        ],
    )
    def test_no_row_is_lost_and_none_comes_twice_where_an_attempt_dies_behind_any_call(self, calls: int) -> None:
        super().test_no_row_is_lost_and_none_comes_twice_where_an_attempt_dies_behind_any_call(calls)
