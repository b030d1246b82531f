"""The number of key groups is derived by Flink's formula or configured."""

from __future__ import annotations

import pytest

from flykka.actors.errors import GraphError
from flykka.actors.machines.state.key_groups import VertexParallelism, default_max_parallelism


@pytest.mark.parametrize(
    ("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (171, 256), (172, 512), (1 << 15, 1 << 15)]
)
def test_the_derived_number_of_key_groups_follows_flinks_formula(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


def test_a_derived_number_of_key_groups_may_be_replaced() -> None:
    derived = VertexParallelism.of(4)

    assert derived.may_become(7)
    assert derived.with_max_parallelism(7).max_parallelism == 7


def test_a_configured_number_of_key_groups_may_not_be_replaced() -> None:
    configured = VertexParallelism.of(4, 16)

    assert not configured.may_become(7)
    with pytest.raises(GraphError, match="is 16 and cannot be changed to 7"):
        configured.with_max_parallelism(7)


@pytest.mark.parametrize(
    ("parallelism", "configured", "refusal"),
    [
        (0, None, "the parallelism is 0; it must be 1 or more"),
        (4, 0, "the maximum parallelism is 0; it must be between 1 and 32768"),
        (4, 32_769, "the maximum parallelism is 32769"),
        (172, 4, "the parallelism 172 is above the maximum parallelism 4: lower the parallelism"),
        (32_769, None, "the parallelism 32769 is above the maximum parallelism 32768"),
    ],
)
def test_out_of_range_numbers_of_key_groups_are_refused(parallelism: int, configured: int | None, refusal: str) -> None:
    with pytest.raises(GraphError, match=refusal):
        VertexParallelism.of(parallelism, configured)
