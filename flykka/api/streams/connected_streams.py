"""Two streams with different columns that one operator reads (Flink's ConnectedStreams and BroadcastConnectedStream).

A function has one method for each stream. The operator has the watermark of the slower input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from flykka.api.streams.data_stream import DataStream
from flykka.api.streams.operators import argument_repr
from flykka.api.streams.program import try_on_prototype
from flykka.api.streams.side_outputs import FunctionOutputs
from flykka.api.streams.transformation import Input, partitioned
from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.graph.job_graph import ShipStrategy
from flykka.spark_bridge.functions.broadcast_functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flykka.spark_bridge.functions.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor
from flykka.spark_bridge.operators.code import KeyByCode
from flykka.spark_bridge.operators.input_code import TagInputCode
from flykka.spark_bridge.operators.process_functions import (
    FunctionInputs,
    Keys,
    keyed_process_code,
    keys_of,
    process_code,
)
from flykka.spark_bridge.program.prototype import Column, check_types
from flykka.spark_bridge.rows.type_support import Use
from flykka.spark_bridge.worker.inputs import OneInput, TwoInputs

if TYPE_CHECKING:
    from flykka.api.streams.dataflow import Dataflow
    from flykka.spark_bridge.functions.function_runner import FunctionWithKeys, FunctionWithoutKeys
    from flykka.spark_bridge.operators.process import ProcessCode
    from flykka.spark_bridge.program.prototype import DataFrame, StructType


class BroadcastStream:
    """A stream whose rows are sent to all subtasks of a connected function, which may store them in broadcast state."""

    def __init__(self, flow: Dataflow, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        self.flow = flow
        self.descriptors = descriptors
        for each in descriptors:
            if not isinstance(each, MapStateDescriptor):
                raise ProgramError(
                    f"broadcast after {flow} takes the descriptors of broadcast state, such as"
                    f" MapStateDescriptor('rules', 'string', 'double'), not {argument_repr(each)}"
                )
        names = [each.name for each in descriptors]
        if len(set(names)) < len(names):
            raise ProgramError(
                f"broadcast after {flow} has two states of one name, among {', '.join(map(repr, names))}"
            )


class _Connected:
    """`broadcast` are the broadcast states of the second stream."""

    def __init__(self, first: Dataflow, second: Dataflow, broadcast: tuple[MapStateDescriptor, ...] = ()) -> None:
        self._first = first
        self._second = second
        self._broadcast = broadcast

    @property
    def _names(self) -> str:
        return f"{self._first} and {self._second}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._names}>"

    def _refuse(self, verb: str, expected: str, function: object) -> NoReturn:
        raise ProgramError(f"{verb} of {self._names}, connected, takes {expected}, not {argument_repr(function)}")

    def _processed(self, verb: str, function: FunctionWithoutKeys, output: StructType | str) -> DataStream:
        name = f"{verb}({type(function).__name__})"
        prototype, code = try_on_prototype(name, lambda: process_code(self._reads, function, output))
        return self._added(name, code, prototype, None)

    def _processed_by_key(
        self, verb: str, function: FunctionWithKeys, output: StructType | str, keys: Keys
    ) -> DataStream:
        """Add an operator with keys; its input rows contain the keys in extra columns."""
        name = f"{verb}({type(function).__name__})"
        tagged = replace(keys, columns=tuple(field.name for field in keys.fields))
        prototype, code = try_on_prototype(name, lambda: keyed_process_code(self._reads, tagged, function, output))
        return self._added(name, code, prototype, tagged)

    @property
    def _reads(self) -> FunctionInputs:
        flows = (self._first, self._second)
        for flow in flows:
            check_types(flow.type.prototype.schema, Use.PYTHON)
        first, second = (
            OneInput(columns=tuple(flow.type.prototype.columns), event_time=flow.type.event_time) for flow in flows
        )
        return FunctionInputs(
            session=self._first.type.prototype.sparkSession,
            inputs=TwoInputs(inputs=(first, second), is_broadcast=bool(self._broadcast)),
            broadcast_states=self._broadcast,
            resources=self._first.program.files.resources,
        )

    def _added(self, name: str, code: ProcessCode, prototype: DataFrame, tagged: Keys | None) -> DataStream:
        """Add the operator. Its rows have the event time of the first input whose event-time column they contain."""
        first, second = self._first, self._second
        operator = first.add_operator(name, code, (*self._inputs(0, tagged), *self._inputs(1, tagged)))
        of_first = first.type.of_rows(prototype)
        row_type = second.type.of_rows(prototype) if of_first.event_time is None else of_first
        return DataStream(first.emitted(operator, row_type, FunctionOutputs(operator, row_type)))

    def _inputs(self, number: int, tagged: Keys | None) -> tuple[Input, ...]:
        """Return the inputs from one of the streams, whose rows get the columns of both streams before the exchange."""
        flow = (self._first, self._second)[number]
        inputs = flow.inputs
        if number and self._broadcast:
            inputs = partitioned(inputs, ShipStrategy.BROADCAST)
        elif tagged is not None:
            inputs = partitioned(inputs, ShipStrategy.HASH, KeyByCode(columns=tagged.columns))
        schemas = self._first.type.prototype.schema, self._second.type.prototype.schema
        key_fields = () if tagged is None else tagged.fields
        code = TagInputCode(number=number, schemas=schemas, keys=flow.keys, key_fields=key_fields)
        return tuple(replace(each, local_code=code) for each in inputs)


def _keys_of(flow: Dataflow) -> Keys:
    """Return the keys, named as in this stream. Raises `StreamTypeError` if the keys do not fit the stream."""
    return try_on_prototype(f"key_by after {flow}", lambda: keys_of(flow.type.prototype, flow.keys))


class ConnectedStreams(_Connected):
    """Two streams that one function reads, both keyed or both not keyed: `first.connect(second)`."""

    def key_by(
        self, keys1: Column | str | Sequence[Column | str], keys2: Column | str | Sequence[Column | str]
    ) -> ConnectedStreams:
        """Partition both streams by keys: columns of the first stream, and as many columns of the second.

        Raises:
            ProgramError: a stream is keyed already, no key is given, or the numbers of keys differ.
            StreamTypeError: a column does not fit its stream, or the types of the keys differ.
        """
        for flow in (self._first, self._second):
            if flow.keys:
                raise ProgramError(f"key_by of {self._names}, connected: {flow} is keyed already")
        first, second = (
            replace(flow, keys=(keys,) if isinstance(keys, (str, Column)) else tuple(keys))
            for flow, keys in ((self._first, keys1), (self._second, keys2))
        )
        keyed = ConnectedStreams(first, second)
        if keyed._keys() is None:
            raise ProgramError(f"key_by of {self._names}, connected, needs at least one column of each")
        return keyed

    def process(self, function: CoProcessFunction | KeyedCoProcessFunction, output: StructType | str) -> DataStream:
        """Call `process_element1` for every row of the first stream and `process_element2` for every row of the second.

        If both streams are keyed, `function` is a `KeyedCoProcessFunction`, which has state and timers per key, else a
        `CoProcessFunction`. It emits rows with the columns `output`, for example `"id bigint, name string"`. Side
        outputs work as in `process` of a single stream. The rows have the event time of the first stream whose
        event-time column they contain.

        Raises:
            ProgramError: `function` has another type, or only one of the streams is keyed.
            StreamTypeError: `output` is invalid, the keys have different types, or the function cannot be pickled.
        """
        keys = self._keys()
        if keys is not None and isinstance(function, KeyedCoProcessFunction):
            return self._processed_by_key("process", function, output, keys)
        if keys is not None or not isinstance(function, CoProcessFunction):
            self._refuse(
                "process",
                "a CoProcessFunction, or after key_by(keys1, keys2) a KeyedCoProcessFunction"
                if keys is None
                else "a KeyedCoProcessFunction, since both are keyed",
                function,
            )
        return self._processed("process", function, output)

    def map(self, function: CoMapFunction, output: StructType | str) -> DataStream:
        """Turn each row into one row with the columns `output`, by `map1` or `map2`. Raises the errors of `process`.

        If both streams are keyed, the function may use keyed state.
        """
        if not isinstance(function, CoMapFunction):
            self._refuse("map", "a CoMapFunction", function)
        return self._without_context("map", function, output)

    def flat_map(self, function: CoFlatMapFunction, output: StructType | str) -> DataStream:
        """Turn each row into any number of rows with the columns `output`, by `flat_map1` or `flat_map2`. See `map`."""
        if not isinstance(function, CoFlatMapFunction):
            self._refuse("flat_map", "a CoFlatMapFunction", function)
        return self._without_context("flat_map", function, output)

    def _without_context(
        self, verb: str, function: CoMapFunction | CoFlatMapFunction, output: StructType | str
    ) -> DataStream:
        keys = self._keys()
        if keys is None:
            return self._processed(verb, function, output)
        return self._processed_by_key(verb, function, output, keys)

    def _keys(self) -> Keys | None:
        """Return the keys, named as in the first stream, or None. Raises an error if the streams' keys differ."""
        if not self._first.keys and not self._second.keys:
            return None
        first, second = _keys_of(self._first), _keys_of(self._second)
        if len(first.schema) != len(second.schema):
            raise ProgramError(
                f"{self._names}, connected, are keyed by {len(first.schema)} and by {len(second.schema)} columns: key"
                " both by the same number of them, or neither"
            )
        for one, other in zip(first.schema, second.schema, strict=True):
            if one.dataType != other.dataType:
                raise StreamTypeError(
                    f"{self._names}, connected: the key {one.name!r} of {self._first} is of type"
                    f" {one.dataType.simpleString()}, and {other.name!r} of {self._second} of type"
                    f" {other.dataType.simpleString()}, so that no rows would have equal keys: cast one of them, as in"
                    f" F.col({other.name!r}).cast({one.dataType.simpleString()!r})"
                )
        return first


class BroadcastConnectedStream(_Connected):
    """A stream, keyed or not, connected with a broadcast stream: `stream.connect(rules.broadcast(descriptor))`."""

    def process(
        self, function: BroadcastProcessFunction | KeyedBroadcastProcessFunction, output: StructType | str
    ) -> DataStream:
        """Call `process_element` for every row, and `process_broadcast_element` for every broadcast row.

        Each subtask receives all broadcast rows. Both methods can read the broadcast state, but only the second can
        write it. A keyed stream requires a `KeyedBroadcastProcessFunction`, other streams a `BroadcastProcessFunction`.
        Rows and their event time are as in `process` of connected streams.

        Raises:
            ProgramError: `function` has another type.
            StreamTypeError: `output` is invalid, or the function cannot be pickled.
        """
        is_keyed = bool(self._first.keys)
        if is_keyed and isinstance(function, KeyedBroadcastProcessFunction):
            return self._processed_by_key("process", function, output, _keys_of(self._first))
        if is_keyed or not isinstance(function, BroadcastProcessFunction):
            expected = "KeyedBroadcastProcessFunction" if is_keyed else "BroadcastProcessFunction"
            why = f"since {self._first} {'is keyed' if is_keyed else 'has no keys'}"
            self._refuse("process", f"a {expected}, {why}", function)
        return self._processed("process", function, output)
