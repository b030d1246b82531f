"""The pytest plugin: fixtures of actor systems, which fail a test whose actors fail or outlive it.

pytest loads this in every run if flykka is installed, so the fixtures import other modules themselves.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from flykka.runtime.testing.systems import TestActorSystem, TestSeededSystem

_SYSTEMS = pytest.StashKey["list[TestActorSystem]"]()
_STRAGGLERS = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "flykka_end_timeout",
        "seconds that the actors and the threads of a test have to end after it",
        type="float",
        default=2.0,
    )
    parser.addini(
        "flykka_ignored_threads",
        "patterns of names of threads that may outlive a test of an actor system",
        type="linelist",
        # The threads of an event loop's executor end with the loop, which may intentionally outlive a test.
        default=["asyncio_*"],
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "seeds(seeds): run the test on a seeded_system of each of these seeds, or of so many seeds"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is None:
        return
    if "seeded_system" not in metafunc.fixturenames or len(marker.args) != 1:
        reason = "the marker seeds(20) or seeds([3, 7]) is only for tests that use the fixture seeded_system"
        pytest.fail(f"{metafunc.definition.nodeid}: {reason}", pytrace=False)
    (seeds,) = marker.args
    seeds = range(seeds) if isinstance(seeds, int) else seeds
    metafunc.parametrize("seeded_system", seeds, indirect=True, ids=lambda seed: f"seed={seed}")


@pytest.fixture
def actor_system_options() -> dict[str, Any]:
    """Options that override defaults of `actor_system` and `seeded_system`. A test suite can override this fixture."""
    return {}


@pytest.fixture
def actor_system(
    request: pytest.FixtureRequest, actor_system_options: dict[str, Any], _no_thread_is_left: None
) -> Iterator[TestActorSystem]:
    """Provide an actor system on real threads, whose messages are encoded and decoded. It ends with the test."""
    from flykka.runtime.testing.systems import TestActorSystem

    options = {"serialize_messages": True} | actor_system_options
    yield from _lend(request.node, TestActorSystem("test", **options))


@pytest.fixture
def seeded_system(
    request: pytest.FixtureRequest, actor_system_options: dict[str, Any], _no_thread_is_left: None
) -> Iterator[TestSeededSystem]:
    """Provide an actor system in virtual time, on the test's thread, in the order of a seed. It ends with the test."""
    from flykka.runtime.testing.systems import TestSeededSystem

    seed = getattr(request, "param", 0)
    yield from _lend(request.node, TestSeededSystem(seed, **actor_system_options))


@pytest.fixture
def _no_thread_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    if request.node.stash.get(_STRAGGLERS, False):
        return  # These actors were already reported, and keep their threads busy.
    left = _left_threads(before, request.config)
    if left:
        pytest.fail("threads outlive the test:\n" + "\n".join(left), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test for failures of its actors, unless the test itself has failed: then the failures are in its log."""
    try:
        result = yield
    except BaseException:
        _unexpected_failures(item)
        raise
    _fail_for(_unexpected_failures(item))
    return result


def _lend(item: pytest.Item, system: Any) -> Iterator[Any]:
    item.stash.setdefault(_SYSTEMS, []).append(system)
    yield system
    stragglers = system.end(item.config.getini("flykka_end_timeout"))
    if stragglers:
        item.stash[_STRAGGLERS] = True
        pytest.fail("actors outlive the test:\n" + "\n".join(stragglers), pytrace=False)
    _fail_for(system.unexpected_failures())


def _unexpected_failures(item: pytest.Item) -> list[str]:
    return [line for system in item.stash.get(_SYSTEMS, []) for line in system.unexpected_failures()]


def _fail_for(failures: list[str]) -> None:
    if failures:
        advice = "expect it with `with system.expect_failure(...):`"
        pytest.fail("actors failed unexpectedly:\n" + "\n".join([*failures, advice]), pytrace=False)


def _left_threads(before: set[threading.Thread], config: pytest.Config) -> list[str]:
    ignored: list[str] = config.getini("flykka_ignored_threads")
    deadline = time.monotonic() + config.getini("flykka_end_timeout")
    left = []
    for thread in set(threading.enumerate()) - before:
        if any(fnmatch(thread.name, pattern) for pattern in ignored):
            continue
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            left.append(f"{thread.name}, {_where(thread)}")
    return sorted(left)


def _where(thread: threading.Thread) -> str:
    """Return the innermost location in a thread outside the waits of the standard library."""
    frame = innermost = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_filename in (threading.__file__, queue.__file__):
        frame = frame.f_back
    frame = frame or innermost
    if frame is None:
        return "about to end"
    return f"in {frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
