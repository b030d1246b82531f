"""Tests the demo itself: with any options its output equals the batch."""

from __future__ import annotations

from types import ModuleType

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]


@pytest.mark.usefixtures("spark")
@pytest.mark.long
@pytest.mark.parametrize("parallelism", ["1", "2", "4"])
def test_the_demo_with_unaligned_checkpoints_and_a_kill_is_exactly_once(demo: ModuleType, parallelism: str) -> None:
    assert demo.main(["--unaligned", "--parallelism", parallelism]) == 0
