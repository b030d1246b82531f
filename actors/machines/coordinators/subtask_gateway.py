"""Events of a coordinator on their way to one subtask (Flink's SubtaskGateway).

From when the coordinator has given its state for a checkpoint until the subtask has passed the barrier of it, events
wait here: the state of the coordinator does not have them, and so that of the subtask must not.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class SubtaskGateway:
    """The way to a subtask. The attempt is None where none runs: events for it go nowhere."""

    attempt_number: int | None = None
    closed_for: tuple[int, ...] = ()
    held: list[bytes] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """True if events reach the subtask."""
        return not self.closed_for

    def send(self, attempt_number: int, events: list[bytes]) -> list[bytes]:
        """Return the events that are to be sent now, of those that are for an attempt."""
        if attempt_number != self.attempt_number:
            return []
        if self.is_open:
            return events
        self.held += events
        return []

    def close(self, checkpoint_id: int) -> None:
        """Hold what is sent from now on until the barrier of the checkpoint has been passed."""
        if self.attempt_number is not None:
            self.closed_for += (checkpoint_id,)

    def pass_barriers(self, up_to: int) -> list[bytes]:
        """Return what may be sent now that the subtask has settled all checkpoints up to this one."""
        return self._reopen(tuple(each for each in self.closed_for if each > up_to))

    def forget(self, checkpoint_id: int) -> list[bytes]:
        """Return what may be sent now that a checkpoint is over."""
        return self._reopen(tuple(each for each in self.closed_for if each != checkpoint_id))

    def _reopen(self, closed_for: tuple[int, ...]) -> list[bytes]:
        self.closed_for = closed_for
        if closed_for:
            return []
        released, self.held = self.held, []
        return released

    def check(self) -> None:
        """Assert that nothing waits for nothing."""
        assert self.closed_for or not self.held, "events wait for no barrier"
        assert self.attempt_number is not None or not self.closed_for, "nobody runs, and a barrier is waited for"
