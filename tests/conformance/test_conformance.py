"""Every case of every area holds for flykka's machines, or is listed as not applicable or deliberately different."""

from __future__ import annotations

import pytest

from tests.conformance.adapters import ADAPTERS
from tests.conformance.case_files import Case, UnknownWordError, known_cases
from tests.conformance.differences import DIFFERENCES, difference
from tests.conformance.not_applicable import LIMIT, NOT_APPLICABLE, not_applicable
from tests.layout.flink_page import ROWS


def test_a_conformance_case_holds(area: str, case: Case) -> None:
    if (reason := not_applicable(area, case["id"])) is not None:
        pytest.skip(f"not applicable: {reason}")
    if area not in ADAPTERS:
        raise UnknownWordError(f"there is no adapter for area {area}")

    if difference(area, case["id"]) is None:
        ADAPTERS[area](case)
    else:
        with pytest.raises(AssertionError):
            ADAPTERS[area](case)


def test_inapplicable_cases_are_few_and_exist_and_have_reasons() -> None:
    assert len(NOT_APPLICABLE) <= LIMIT
    assert NOT_APPLICABLE.keys() <= known_cases()
    assert all(NOT_APPLICABLE.values())


def test_each_difference_belongs_to_a_case_and_to_the_flink_page() -> None:
    assert DIFFERENCES.keys() <= known_cases() - NOT_APPLICABLE.keys()
    assert set(DIFFERENCES.values()) <= {mechanism for mechanism, *_ in ROWS}
