"""A seeded system for each test, ended behind it; and a threaded one for what only threads can show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem


@pytest.fixture
def system() -> Iterator[SeededSystem]:
    with SeededSystem(7) as system:
        yield system


@pytest.fixture
def threaded() -> Iterator[ActorSystem]:
    with ActorSystem("threaded", serialize_messages=True) as system:
        yield system


@pytest.fixture(params=["virtual", "real"])
def either(request: pytest.FixtureRequest) -> Iterator[ActorSystem]:
    """One after the other, for what has to hold in both."""
    with SeededSystem(5) if request.param == "virtual" else ActorSystem("real", serialize_messages=True) as system:
        yield system
