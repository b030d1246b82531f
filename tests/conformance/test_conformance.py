"""Every case of every area holds for our machines."""

from __future__ import annotations

import pytest

from tests.conformance.adapters import ADAPTERS
from tests.conformance.case_files import OPEN_CASES, Case, UnknownWordError, case_files
from tests.conformance.not_applicable import LIMIT, NOT_APPLICABLE, not_applicable


def test_a_case_holds(area: str, case: Case) -> None:
    if (reason := not_applicable(area, case["id"])) is not None:
        pytest.skip(f"not applicable: {reason}")
    if area not in ADAPTERS:
        raise UnknownWordError(f"there is no adapter for area {area}")

    ADAPTERS[area](case)


def test_few_cases_are_not_applicable_and_each_is_there_and_has_a_reason() -> None:
    known = {f"{file.area}/{case['id']}" for file in case_files(OPEN_CASES) for case in file.cases}

    assert len(NOT_APPLICABLE) <= LIMIT
    assert NOT_APPLICABLE.keys() <= known
    assert all(NOT_APPLICABLE.values())
