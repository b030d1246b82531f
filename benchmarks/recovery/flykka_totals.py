"""The query as a job of flykka, whose TaskManager is killed repeatedly."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.recovery import totals
from flykka import (
    FileSink,
    FileSource,
    RestartStrategies,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from flykka.messages.attempt.answers import StageResult
from flykka.messages.attempt.commands import ProcessBatch
from flykka.messages.control.job import CheckpointCompleted
from flykka.messages.wire.message import Message

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.ref import ActorRef

SECONDS_AT_MOST = 120.0
"""The maximum duration of a run in seconds; a longer run has failed."""


class FirstBatches:
    """The times at which the keyed vertex finished its first batch in each attempt, by the path of its Task."""

    def __init__(self) -> None:
        self.finished_at: dict[str, float] = {}
        self._keyed: set[str] = set()
        self._changed = threading.Condition()

    def on_delivery(self, recipient: ActorRef, message: Message, _sender: Ref | None) -> None:
        # Only the bridge of the keyed vertex receives batches of other tasks.
        if isinstance(message, ProcessBatch):
            self._keyed.add(recipient.path.removesuffix("/bridge"))
        elif isinstance(message, StageResult) and message.rows_in and recipient.path in self._keyed:
            with self._changed:
                self.finished_at.setdefault(str(recipient), time.monotonic())
                self._changed.notify_all()

    def wait_for_another(self, known: frozenset[str]) -> float:
        """Return when an attempt that is not `known` finished its first batch. Raises `TimeoutError` if none does."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.finished_at.keys() - known, SECONDS_AT_MOST):
                raise TimeoutError("no batch was finished behind the failure")
            return min(at for name, at in self.finished_at.items() if name not in known)


class FlykkaTotals:
    """Runs the job from its creation on; its input is the files in `folder / "input"`."""

    def __init__(self, folder: Path, high_availability: Path | None = None) -> None:
        self._env = StreamExecutionEnvironment.get_execution_environment(
            slots_per_task_manager=1,
            high_availability=None if high_availability is None else str(high_availability),
        )
        self.batches = FirstBatches()
        self._env.cluster.system.add_delivery_hook(self.batches.on_delivery)
        self._completed = threading.Condition()
        self._checkpoints = 0
        self._env.enable_checkpointing(totals.CHECKPOINT_INTERVAL_MS, tolerable_failures=1_000)
        self._env.set_checkpoint_dir(str(folder / "checkpoints"))
        self._env.set_restart_strategy(RestartStrategies.fixed_delay_restart(delay=0))
        source = FileSource.parquet(str(folder / "input"), schema=totals.SCHEMA).files_per_batch(1)
        watermarks = WatermarkStrategy.for_bounded_out_of_orderness(totals.WATERMARK_DELAY)
        (
            self._env.from_source(
                source.monitor_continuously("20ms"), watermarks.with_timestamp_column(totals.EVENT_TIME), uid="rows"
            )
            .key_by(totals.KEY)
            .window(TumblingEventTimeWindows.of("1h"))
            .aggregate(*totals.aggregates())
            .uid("totals")
            .sink_to(FileSink.parquet(str(folder / "output")))
            .uid("output")
        )
        self._client = self._env.execute_async("totals")
        self._client.add_listener(self._on_message)

    def settle(self) -> None:
        """Wait until all arrived rows are in a checkpoint that began after the last batch.

        Raises:
            TimeoutError: the checkpoint does not complete.
        """
        with self._completed:
            # The next checkpoint may have begun before the last batch.
            wanted = self._checkpoints + 2
            if not self._completed.wait_for(lambda: self._checkpoints >= wanted, SECONDS_AT_MOST):
                raise TimeoutError("no checkpoint was completed")

    def recover(self) -> float:
        """Kill the TaskManager; return the seconds until the keyed vertex has finished a batch in another attempt."""
        known = frozenset(self.batches.finished_at)
        (doomed,) = self._env.cluster.task_managers()
        begun = time.monotonic()
        self._env.cluster.kill_task_manager(doomed)
        return self.batches.wait_for_another(known) - begun

    def close(self) -> None:
        self._client.cancel()
        self._env.close()

    def _on_message(self, message: Message) -> None:
        if isinstance(message, CheckpointCompleted):
            with self._completed:
                self._checkpoints += 1
                self._completed.notify_all()
