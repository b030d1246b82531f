"""Bounds of parallelism: an integer or a pair, for all vertices or by vertex."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flykka.client.resource_requirements import bounds_of
from flykka.errors import RescaleError
from tests.flykka.client.one_job import GRAPH


@pytest.mark.parametrize("invalid", [True, (1, True), 2.5, "4", (1, 2, 3), None])
def test_a_parallelism_must_be_an_integer_or_a_pair(invalid: Any) -> None:
    for requirements in (invalid, {"output": invalid}):
        with pytest.raises(
            RescaleError, match=f"must be a whole number, or a minimum.* not {re.escape(repr(invalid))}"
        ):
            bounds_of(GRAPH, requirements)

    assert [(each.lower_bound, each.upper_bound) for each in bounds_of(GRAPH, (2, 3)).vertices] == [(2, 3)] * 2
