"""Fixtures: a seeded system for each test, stopped after the test, and a threaded system for behaviour that needs
threads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from flykka.runtime.events import ActorFailed
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem
from tests.runtime.scripted_actors import says, scripted_actor


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
    """A seeded and a threaded system in turn, for behaviour that must be the same in both."""
    with SeededSystem(5) if request.param == "virtual" else ActorSystem("real", serialize_messages=True) as system:
        yield system


@pytest.fixture
def failures(system: SeededSystem) -> list[str]:
    """The types of all failures, in order of occurrence."""
    seen: list[str] = []
    system.event_stream.subscribe(lambda event: seen.append(event.failure.type_name), ActorFailed)
    return seen


@pytest.fixture
def bystander(system: SeededSystem) -> Iterator[list[str]]:
    """An unrelated actor; asserts after the test that it was neither stopped nor restarted."""
    log: list[str] = []
    ref = system.spawn(scripted_actor(log), "bystander")
    yield log
    ref.tell(says("unharmed"))
    system.run_until_idle()
    assert log == ["bystander start", "bystander unharmed"]


@pytest.fixture
def no_log_of_failures(caplog: pytest.LogCaptureFixture) -> None:
    """Disables the log of failures in tests that cause thousands of them on purpose."""
    caplog.set_level(logging.CRITICAL, "flykka.runtime")
