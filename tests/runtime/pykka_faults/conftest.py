"""Fixtures: plain Pykka actors, which are removed after each test so that a fault in one test cannot affect another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from flykka.runtime.props import DispatcherName, Props
from tests.runtime.pykka_faults.stock import Deed, Staged, Stock
from tests.runtime.scripted_actors import scripted_actor

Stage = Callable[..., Staged]
Play = Callable[..., Props]


@pytest.fixture(params=["default", "pinned"])
def dispatcher(request: pytest.FixtureRequest) -> DispatcherName:
    """Each dispatcher in turn: the shared pool and Pykka's own thread loop."""
    name: DispatcherName = request.param
    return name


@pytest.fixture
def ours(dispatcher: DispatcherName) -> Play:
    """Creates the Props of a scripted actor on this dispatcher."""
    return lambda *script: scripted_actor(*script).with_dispatcher(dispatcher)


@pytest.fixture
def stage() -> Iterator[Stage]:
    staged: list[Staged] = []

    def start(script: Mapping[str, Deed] | None = None, actor: type[Stock] = Stock) -> Staged:
        staged.append(Staged())
        return staged[-1].start(script, actor)

    yield start
    for each in staged:
        each.clear_away()
