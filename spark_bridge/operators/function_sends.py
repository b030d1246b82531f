"""Events and values that the function of an operator sends, call by call, on the driver's side."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

from flykka.messages.tasks.operator_event import AggregateUpdate, SentByFunction
from flykka.spark_bridge.worker.function_sends import CallOfFunction, Sends, SendsParam

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.accumulators import AccumulatorParam

    from flykka.messages.tasks.operator_event import AggregateResult
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.worker.function_spec import FunctionSpec


class FunctionSends:
    """The sends of one attempt. Two calls may be at work side by side."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._results: dict[str, bytes] = {}
        self._calls = 0

    @cached_property
    def _accumulator(self) -> Accumulator[Sends]:
        param = cast("AccumulatorParam[Sends]", SendsParam())
        return self._context.scope.session.sparkContext.accumulator({}, param)

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(self._accumulator)

    def note_aggregates(self, results: tuple[AggregateResult, ...]) -> None:
        """Note results of global aggregates, for calls that begin from now on."""
        if results:
            # Another object: calls that have begun keep what they were given.
            self._results = {**self._results, **{each.name: each.result for each in results}}

    def begin(self, spec: FunctionSpec) -> FunctionSpec:
        self._calls += 1
        call = CallOfFunction(number=self._calls, accumulator=self._pickled, results=self._results)
        return replace(spec, call=call)

    def take(self, spec: FunctionSpec) -> SentByFunction | None:
        """Return what was sent in the call that `begin` has made of a function, and whose rows were all computed."""
        assert spec.call is not None, "a function that is called by an operator may send"
        number, sends = spec.call.number, self._accumulator.value
        parts = [sends.pop(place) for place in sorted(sends.copy()) if place[0] == number]
        if not parts:
            return None
        for part in parts:
            self._context.aggregates.bind(part.functions, self._context.link.description)
        updates = (AggregateUpdate(name=name, value=value) for part in parts for name, value in part.updates)
        return SentByFunction(
            operator_id=self._context.operator_id,
            events=tuple(event for part in parts for event in part.events),
            updates=tuple(updates),
        )
