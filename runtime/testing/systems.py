"""The actor systems that the pytest fixtures lend: what fails or stays behind in them is held against the test."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from flykka.runtime.errors import TerminationTimeoutError
from flykka.runtime.system import ActorSystem
from flykka.runtime.testing.expected_failures import ExpectedFailure, FailureWatch, described, expected_failure
from flykka.runtime.testing.seeded import SeededSystem

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref


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
