"""The actor systems of the pytest fixtures. Failed actors, and actors that outlive the test, fail the test."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from flykka.runtime.errors import TerminationTimeoutError
from flykka.runtime.events import ActorFailed
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.seeded import SeededSystem

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref


class ExpectedFailure:
    """The failures that a test expects, and those that occurred."""

    def __init__(self, error: str | None, match: str | None, path: str | None, count: int) -> None:
        self.failures: list[ActorFailed] = []
        self._error = error
        self._match = match
        self._path = path
        self._count = count

    @property
    def done(self) -> bool:
        """True if all expected failures have occurred."""
        return len(self.failures) >= self._count

    def matches(self, failed: ActorFailed) -> bool:
        """Return True if this failure is still expected."""
        return (
            not self.done
            and self._error in (None, failed.failure.type_name)
            and self._path in (None, failed.ref.path)
            and (self._match is None or re.search(self._match, failed.failure.message) is not None)
        )

    def __str__(self) -> str:
        description = self._error or "a failure"
        matching = "" if self._match is None else f" that matches {self._match!r}"
        where = "" if self._path is None else f" of {self._path}"
        return (
            f"{self._count} x {description}{where}{matching}" if self._count > 1 else f"{description}{where}{matching}"
        )


class FailureWatch:
    def __init__(self, system: ActorSystem) -> None:
        self._unexpected: list[ActorFailed] = []
        self._system = system
        self._expected: list[ExpectedFailure] = []
        self._changed = threading.Condition()
        system.event_stream.subscribe(self._on_failed, ActorFailed)

    @contextmanager
    def expect(self, expected: ExpectedFailure, timeout: float) -> Iterator[ExpectedFailure]:
        """Wait for missing failures after the block. Raises `AssertionError` if they do not occur."""
        with self._changed:
            self._expected.append(expected)
        try:
            yield expected
            came = self._wait(expected, timeout)
        finally:
            with self._changed:
                self._expected.remove(expected)
        others = ", ".join(describe_failure(failed) for failed in (*expected.failures, *self._unexpected))
        assert came, f"expected {expected} within {timeout} s; failures: {others or 'nothing'}"

    def pop_unexpected(self) -> list[ActorFailed]:
        with self._changed:
            unexpected, self._unexpected = self._unexpected, []
        return unexpected

    def _wait(self, expected: ExpectedFailure, timeout: float) -> bool:
        if self._system.driver is not None:
            self._system.driver.drive(lambda: expected.done, timeout)
            return expected.done
        with self._changed:
            return self._changed.wait_for(lambda: expected.done, timeout)

    def _on_failed(self, failed: ActorFailed) -> None:
        with self._changed:
            for expected in self._expected:
                if expected.matches(failed):
                    expected.failures.append(failed)
                    self._changed.notify_all()
                    return
            self._unexpected.append(failed)


def describe_failure(failed: ActorFailed) -> str:
    return f"{failed.failure.type_name} of {failed.ref}: {failed.failure.message}"


class TestActorSystem(ActorSystem):
    """An actor system that records failures. Takes the arguments of `ActorSystem`."""

    __test__ = False  # Not a test class, despite its name.

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._failures = FailureWatch(self)

    def expect_failure(
        self,
        error: type[BaseException] | str | None = None,
        *,
        match: str | None = None,
        of: Ref | str | None = None,
        count: int = 1,
        timeout: float = 3.0,
    ) -> AbstractContextManager[ExpectedFailure]:
        """Expect that actors fail in this block, or at most `timeout` seconds of the system's clock after it.

        Args:
            error: the exact class of the exception, or its name; by default any.
            match: a regular expression that the text of the error has to contain.
            of: the actor, as a ref or a path; by default any.
            count: the number of failures.
            timeout: the seconds to wait after the block.

        Raises:
            AssertionError: they did not fail. The error names the failures that occurred instead.
        """
        name = error.__name__ if isinstance(error, type) else error
        path = of if of is None or isinstance(of, str) else of.path
        return self._failures.expect(ExpectedFailure(name, match, path, count), timeout)

    def unexpected_failures(self) -> list[str]:
        """Return the unexpected failures since the last call, one line each."""
        return [describe_failure(failed) for failed in self._failures.pop_unexpected()]

    def end(self, timeout: float) -> list[str]:
        """Terminate, by a kill after `timeout` seconds. Returns the actors that were still alive, one line each."""
        try:
            self.terminate().wait(timeout=timeout)
        except TerminationTimeoutError as late:
            # The kill prevents that the system disturbs other tests: its threads end as soon as they return.
            self.kill(self.user.ref)
            return [f"{straggler} had not ended {timeout} s after it was asked to" for straggler in late.stragglers]
        return []


class TestSeededSystem(TestActorSystem, SeededSystem):
    """A seeded system that records failures. Takes the arguments of `SeededSystem`."""
