"""Operators with automatic parallelism share the slots with operators whose parallelism is fixed."""

from __future__ import annotations

from typing import cast

import pytest

from flykka.api.streams.auto_parallelism import PARALLELISM_AUTO_MAX, parallelism_of
from flykka.api.streams.transformation import Input, Transformation
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import OperatorKind
from flykka.spark_bridge.operators.code import OperatorCode
from tests.flykka.api.without_spark import without_spark

AUTO = PARALLELISM_AUTO_MAX


def stateless(
    name: str,
    parallelism: int | None = None,
    *reads: Transformation,
    group: str | None = None,
    limit: int | None = None,
    most: int | None = None,
) -> Transformation:
    return Transformation(
        kind=OperatorKind.STATELESS,
        position=1,
        name=name,
        code=cast(OperatorCode, None),
        inputs=tuple(Input(source=each) for each in reads),
        parallelism=parallelism,
        parallelism_limit=limit,
        max_parallelism=most,
        slot_sharing_group=group,
    )


def shared(*operators: Transformation, default: int = 1, slots: int | None = 8) -> dict[str, int]:
    return {made.name: number for made, number in parallelism_of(operators, default, slots).items()}


def test_operators_that_share_slots_use_all_slots() -> None:
    source = stateless("source", AUTO)

    assert shared(source, stateless("map", AUTO, source), stateless("sink", 2, source)) == {
        "source": 8,
        "map": 8,
        "sink": 2,
    }


def test_separate_slot_sharing_groups_share_the_remaining_slots() -> None:
    source = stateless("source", AUTO)
    apart, known = stateless("apart", AUTO, source, group="apart"), stateless("known", 2, source, group="known")

    # The reader inherits the slot sharing group of its input.
    assert shared(source, apart, known, stateless("reader", AUTO, apart)) == {
        "source": 3,
        "apart": 3,
        "known": 2,
        "reader": 3,
    }


def test_a_parallelism_limit_is_respected() -> None:
    assert shared(stateless("one", AUTO, limit=1), stateless("few", AUTO, most=5)) == {"one": 1, "few": 5}


def test_automatic_parallelism_may_be_the_default_of_the_environment() -> None:
    default = without_spark().set_parallelism("auto").defaults.parallelism

    assert shared(stateless("source"), stateless("sink", 3), stateless("one", limit=1), default=default) == {
        "source": 8,
        "sink": 3,
        "one": 1,
    }


def test_at_least_one_subtask_runs_even_if_no_slots_are_left() -> None:
    assert shared(stateless("known", 8, group="known"), stateless("source", AUTO)) == {"known": 8, "source": 1}


def test_automatic_parallelism_needs_a_number_of_slots() -> None:
    with pytest.raises(
        ProgramError, match=r"the parallelism of source depends on the number of slots, which is not set"
    ):
        shared(stateless("source", AUTO), slots=None)
    assert shared(stateless("source", 2), slots=None) == {"source": 2}


@pytest.mark.parametrize("wrong", ["all", "4", 0])
def test_other_values_of_parallelism_are_refused(wrong: object) -> None:
    with pytest.raises(ProgramError, match="the parallelism must be a whole number from 1"):
        without_spark().set_parallelism(wrong)  # type: ignore[arg-type]
