"""Combines all monitors, and observes a run: from a trace, or record by record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flykka.monitors.attempts import AttemptMonitor
from flykka.monitors.barriers import BarrierMonitor
from flykka.monitors.batches import BatchMonitor
from flykka.monitors.checkpoints import CheckpointMonitor
from flykka.monitors.commits import CommitMonitor
from flykka.monitors.exchange import ExchangeMonitor
from flykka.monitors.failures import FailureMonitor
from flykka.monitors.liveness import LivenessMonitor
from flykka.monitors.monitor import Conversation, ConversationMonitor, Monitor, Violation
from flykka.monitors.sessions import SessionMonitor
from flykka.monitors.states import StateMonitor
from flykka.monitors.watermarks import WatermarkMonitor
from flykka.runtime.trace.file.order import nearly_in_order
from flykka.runtime.trace.records import Record


def all_monitors(*, is_whole: bool = True, progress_within_ms: int | None = None) -> tuple[Monitor, ...]:
    """Create one monitor of each type, in its initial state, for one run.

    Args:
        is_whole: whether the records begin with the start of the run. If not, monitors allow for events before them.
        progress_within_ms: the time (ms) in which jobs must make progress. With None, progress is not checked.
    """
    liveness = () if progress_within_ms is None else (LivenessMonitor(progress_within_ms),)
    return (
        *liveness,
        CheckpointMonitor(is_whole=is_whole),
        AttemptMonitor(),
        CommitMonitor(),
        StateMonitor(is_whole=is_whole),
        ExchangeMonitor(),
        WatermarkMonitor(),
        BarrierMonitor(),
        BatchMonitor(),
        FailureMonitor(),
        SessionMonitor(),
    )


class Watch:
    """Several monitors as one. Monitors that observe messages share one lookup per record."""

    def __init__(self, monitors: Iterable[Monitor]) -> None:
        monitors = tuple(monitors)
        conversing = [monitor for monitor in monitors if isinstance(monitor, ConversationMonitor)]
        self._conversation = Conversation(conversing)
        self._others = [monitor for monitor in monitors if not isinstance(monitor, ConversationMonitor)]
        self._monitors = monitors

    def wants(self, kind: type, *, is_sent: bool) -> bool:
        return bool(self._others) or self._conversation.wants(kind, is_sent=is_sent)

    def observe(self, record: Record) -> Iterator[Violation]:
        yield from self._conversation.observe(record)
        for monitor in self._others:
            yield from monitor.observe(record)

    def end(self) -> Iterator[Violation]:
        for monitor in self._monitors:
            yield from monitor.end()


def check(records: Iterable[Record], monitors: Iterable[Monitor], *, has_ended: bool = False) -> Iterator[Violation]:
    """Check a recorded run. Violations are yielded as they are found.

    `has_ended` is True if the run ended normally at the end of the records.
    """
    watch = Watch(monitors)
    for record in nearly_in_order(records):
        yield from watch.observe(record)
    if has_ended:
        yield from watch.end()
