"""The actor systems that the pytest fixtures lend: what fails or stays behind in them is held against the test."""

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


class TestActorSystem(ActorSystem):
    """An actor system that takes note of failures. Made as any other."""

    __test__ = False  # No test class, whatever pytest makes of the name.

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
        """Expect that actors fail in this block, or at most `timeout` seconds of the system's clock behind it.

        Args:
            error: the class of what they raise, that very one, or its name; any unless given.
            match: a regular expression that the text of the error has to contain.
            of: the actor, as a ref or a path; any unless given.
            count: how many failures there are.
            timeout: seconds.

        Raises:
            AssertionError: they did not fail so; the error tells what failed instead.
        """
        return self._failures.expect(expected_failure(error, match, of, count), timeout)

    def unexpected_failures(self) -> list[str]:
        """The failures that no one has expected, one line each; asking for them forgives them."""
        return [described(failed) for failed in self._failures.take_unexpected()]

    def end(self, timeout: float) -> list[str]:
        """Terminate, by force if need be; what stayed behind `timeout` seconds later, one line each."""
        try:
            self.terminate().wait(timeout=timeout)
        except TerminationTimeoutError as late:
            # So that it harms no other test: its threads end as soon as they come back.
            self.kill(self.user.ref)
            return [f"{straggler} had not ended {timeout} s after it was told to" for straggler in late.stragglers]
        return []


class TestSeededSystem(TestActorSystem, SeededSystem):
    """A seeded system that takes note of failures. Made as `SeededSystem`."""
