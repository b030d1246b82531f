"""A stage for stock actors, swept behind each test: no fault of one test reaches the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.runtime.pykka_faults.stock import Deed, Staged, Stock

Stage = Callable[..., Staged]


@pytest.fixture
def stage() -> Iterator[Stage]:
    staged: list[Staged] = []

    def start(part: Mapping[str, Deed] | None = None, actor: type[Stock] = Stock) -> Staged:
        staged.append(Staged())
        return staged[-1].start(part, actor)

    yield start
    for each in staged:
        each.clear_away()
