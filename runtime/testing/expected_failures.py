"""Failures of actors in a test: each was expected by the test, or is held against it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flykka.runtime.events import ActorFailed

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.system import ActorSystem


class ExpectedFailure:
    """What a test expects, and what came of it."""

    def __init__(self, error: str | None, match: str | None, path: str | None, count: int) -> None:
        self.failures: list[ActorFailed] = []
        """What has come so far."""
        self._error = error
        self._match = match
        self._path = path
        self._count = count

    @property
    def done(self) -> bool:
        """Whether everything expected has come."""
        return len(self.failures) >= self._count

    def takes(self, failed: ActorFailed) -> bool:
        """Whether this is what is still expected."""
        return (
            not self.done
            and self._error in (None, failed.failure.type_name)
            and self._path in (None, failed.ref.path)
            and (self._match is None or re.search(self._match, failed.failure.message) is not None)
        )

    def __str__(self) -> str:
        what = self._error or "a failure"
        matching = "" if self._match is None else f" that matches {self._match!r}"
        where = "" if self._path is None else f" of {self._path}"
        return f"{self._count} x {what}{where}{matching}" if self._count > 1 else f"{what}{where}{matching}"


class FailureWatch:
    """Takes note of every actor that fails in one system."""

    def __init__(self, system: ActorSystem) -> None:
        self._unexpected: list[ActorFailed] = []
        self._system = system
        self._expected: list[ExpectedFailure] = []
        self._news = threading.Condition()
        system.event_stream.subscribe(self._on_failed, ActorFailed)

    @contextmanager
    def expect(self, expected: ExpectedFailure, timeout: float) -> Iterator[ExpectedFailure]:
        """Behind the block, wait for what is still missing. Raises `AssertionError` where it does not come."""
        with self._news:
            self._expected.append(expected)
        try:
            yield expected
            came = self._wait(expected, timeout)
        finally:
            with self._news:
                self._expected.remove(expected)
        others = ", ".join(described(failed) for failed in (*expected.failures, *self._unexpected))
        assert came, f"expected {expected} within {timeout} s; what failed was {others or 'nothing'}"

    def take_unexpected(self) -> list[ActorFailed]:
        """What has failed without being expected, since this was called last."""
        with self._news:
            unexpected, self._unexpected = self._unexpected, []
        return unexpected

    def _wait(self, expected: ExpectedFailure, timeout: float) -> bool:
        if self._system.driver is not None:
            self._system.driver.drive(lambda: expected.done, timeout)
            return expected.done
        with self._news:
            return self._news.wait_for(lambda: expected.done, timeout)

    def _on_failed(self, failed: ActorFailed) -> None:
        with self._news:
            for expected in self._expected:
                if expected.takes(failed):
                    expected.failures.append(failed)
                    self._news.notify_all()
                    return
            self._unexpected.append(failed)


def described(failed: ActorFailed) -> str:
    """One failure in one line."""
    return f"{failed.failure.type_name} of {failed.ref}: {failed.failure.message}"


def expected_failure(
    error: type[BaseException] | str | None, match: str | None, of: Ref | str | None, count: int
) -> ExpectedFailure:
    """What is expected, as a test writes it down."""
    name = error.__name__ if isinstance(error, type) else error
    path = of if of is None or isinstance(of, str) else of.path
    return ExpectedFailure(name, match, path, count)
