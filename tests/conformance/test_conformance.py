"""Every case of every area holds for our machines."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.conformance.adapters import ADAPTERS
from tests.conformance.case_files import OPEN_CASES, Case, UnknownWordError, case_files
from tests.conformance.not_offered import NOT_OFFERED, SHARE, not_offered


def test_a_case_holds(area: str, case: Case) -> None:
    if (rule := not_offered(area, case)) is not None:
        pytest.skip(f"not offered ({rule.versions}): {rule.rule}: {rule.reason}")
    if area not in ADAPTERS:
        raise UnknownWordError(f"there is no adapter for area {area}")

    ADAPTERS[area](case)


def test_what_is_not_offered_is_little_and_is_named_by_version_and_rule() -> None:
    sizes = {file.area: len(file.cases) for file in case_files(OPEN_CASES)}
    left_out = Counter(
        file.area for file in case_files(OPEN_CASES) for case in file.cases if not_offered(file.area, case)
    )

    assert all(count <= SHARE * sizes[area] for area, count in left_out.items())
    assert all(rule.versions and rule.rule and rule.reason for rule in NOT_OFFERED)
