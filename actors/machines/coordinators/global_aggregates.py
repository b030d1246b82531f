"""Global aggregates of one job (Flink's GlobalAggregateManager, as its JobMaster keeps it).

Subtasks add values, which are folded elsewhere, for that is the user's code: one batch of updates at a time. Results go
to all attempts that have added to the same aggregate. Nothing of it is in a checkpoint, and a restart of tasks takes
nothing back, as in Flink.

The alignment of watermarks is no such aggregate, though that of Flink's Kinesis consumer is: what a reader has said is
taken back when it begins again, an idle one is left out, and all of it is decided in a turn, without the user's code.

Not here: the values and functions, where an attempt runs.
"""

from __future__ import annotations

from flykka.actors.machines.coordinators.coordinator_events import AggregateEffect, UpdateAggregates
from flykka.actors.machines.effects import Ignore, Tell
from flykka.messages.tasks.operator_event import (
    AggregateUpdate,
    GlobalAggregateResults,
    GlobalAggregatesUpdated,
    SendOperatorEvents,
)
from flykka.messages.wire.ids import ExecutionAttemptId


class GlobalAggregates:
    """The updates that wait, and who is to hear of results."""

    def __init__(self) -> None:
        self._readers: dict[str, dict[ExecutionAttemptId, None]] = {}
        self._waiting: list[AggregateUpdate] = []
        self._is_at_work = False

    def on_updates(self, sent: SendOperatorEvents) -> list[AggregateEffect]:
        for update in sent.sent.updates:
            self._readers.setdefault(update.name, {})[sent.attempt] = None
            self._waiting.append(update)
        return self._update_next()

    def on_updated(self, updated: GlobalAggregatesUpdated) -> list[AggregateEffect]:
        """The updates that were at work are done."""
        if not self._is_at_work:
            return [Ignore(reason="no update of an aggregate is at work")]
        self._is_at_work = False
        effects: list[AggregateEffect] = []
        by_attempt: dict[ExecutionAttemptId, list[int]] = {}
        for place, result in enumerate(updated.results):
            for attempt in self._readers.get(result.name, ()):
                by_attempt.setdefault(attempt, []).append(place)
        for attempt, places in by_attempt.items():
            results = tuple(updated.results[place] for place in places)
            effects.append(Tell(to=attempt, message=GlobalAggregateResults(attempt=attempt, results=results)))
        return [*effects, *self._update_next()]

    def on_failed(self) -> list[AggregateEffect]:
        """A function of the user's has raised: the job fails with it, and what waits goes on."""
        self._is_at_work = False
        return self._update_next()

    def attempt_over(self, attempt: ExecutionAttemptId) -> None:
        """An attempt has ended: it reads no result any more."""
        for readers in self._readers.values():
            readers.pop(attempt, None)

    def check(self) -> None:
        assert self._is_at_work or not self._waiting, "updates wait for nothing"

    def _update_next(self) -> list[AggregateEffect]:
        if self._is_at_work or not self._waiting:
            return []
        updates, self._waiting = tuple(self._waiting), []
        self._is_at_work = True
        return [UpdateAggregates(updates=updates)]
