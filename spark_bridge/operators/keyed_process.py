"""Functions of each row with keyed state and timers (Flink's KeyedProcessOperator)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flykka.messages.tasks.exchange import WATERMARK_MIN
from flykka.spark_bridge.functions.current_key import TimeDomain
from flykka.spark_bridge.operators.due_timers import DueTimers
from flykka.spark_bridge.operators.function_specs import function_spec
from flykka.spark_bridge.operators.keyed_batch import KeyedBatchOperator
from flykka.spark_bridge.operators.operator import Element, Output
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.worker.keyed_function import FireTimers, ProcessKeyedRows
from flykka.spark_bridge.worker.listed_state import RemoveExpired
from flykka.spark_bridge.worker.process_batch import ProcessDueKeys
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER, NEXT_PROCESSING_TIMER

if TYPE_CHECKING:
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.process_code import KeyedProcessCode

_TIMERS = {TimeDomain.EVENT_TIME: NEXT_EVENT_TIMER, TimeDomain.PROCESSING_TIME: NEXT_PROCESSING_TIMER}


class KeyedProcessOperator(KeyedBatchOperator):
    """Functions with timers, which fire with the watermark and with processing time."""

    def __init__(self, context: OperatorContext, code: KeyedProcessCode) -> None:
        super().__init__(context, code)
        self._session = context.services.session
        self._event_timers = DueTimers(TimeDomain.EVENT_TIME)
        self._processing_timers = DueTimers(TimeDomain.PROCESSING_TIME)
        self._expiring = code.expiring_states
        self._times = (WATERMARK_MIN, 0)
        self._spec = function_spec(context, code)

    def function(self, element: Element[Slices]) -> ProcessKeyedRows:
        """Call the function for every row of a batch."""
        self._times = element.watermark_ms, element.processing_time_ms
        return ProcessKeyedRows(
            spec=self._spec, watermark_ms=element.watermark_ms, processing_time_ms=element.processing_time_ms
        )

    def clean_up(self) -> RemoveExpired | None:
        """Remove values that have expired."""
        if self._expiring is None:
            return None
        watermark_ms, processing_time_ms = self._times
        return RemoveExpired(
            descriptors=self._expiring, watermark_ms=watermark_ms, processing_time_ms=processing_time_ms
        )

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Slices]:
        """Fire the event-time timers that are due."""
        if watermark_ms == WATERMARK_MIN:
            return Output()
        self._times = watermark_ms, processing_time_ms
        return self._fired(self._event_timers, watermark_ms, is_wanted=self._spec.sees_watermarks)

    def advance_processing_time(self, processing_time_ms: int, watermark_ms: int) -> Output[Slices]:
        """Fire the processing-time timers that are due."""
        self._times = watermark_ms, processing_time_ms
        return self._fired(self._processing_timers, processing_time_ms)

    @property
    def next_timer_ms(self) -> int | None:
        """The first processing-time timer, also in what is to be added to the state."""
        arrived = (segment for segment in self._arrived.values() if segment is not None)
        return self._processing_timers.first_ms([*self.store.segments.live, *arrived])

    def _fired(self, timers: DueTimers, due_ms: int, *, is_wanted: bool = False) -> Output[Slices]:
        """Fire what is due; without any timer only where the function `is_wanted` to be called all the same."""
        self.store.await_restored()
        live = self.store.segments.live
        first_ms = timers.first_ms(live)
        if not is_wanted and (first_ms is None or first_ms > due_ms):
            return Output()
        version = max((segment.version for segment in live), default=0)
        due = partial(
            ProcessDueKeys,
            timer=_TIMERS[timers.domain],
            due_ms=due_ms,
            after_ms=timers.fired_ms,
            after_version=timers.fired_version,
        )
        watermark_ms, processing_time_ms = self._times
        fire = FireTimers(
            spec=self._spec,
            domain=timers.domain,
            watermark_ms=watermark_ms,
            processing_time_ms=processing_time_ms,
        )
        made = self.made(self._session.range(1), due, fire)

        def on_emitted() -> None:
            told = made.told()
            timers.on_fired(due_ms, version, told.next_timer_ms)
            self.store.add(told.segment)

        return Output(rows=(made.rows,), side=made.side, on_emitted=on_emitted)
