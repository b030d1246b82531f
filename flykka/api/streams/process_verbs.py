"""The verbs that call a user's function with a context: `process`, with keys and without."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from flykka.api.streams.program import Program, tried
from flykka.errors import ProgramError
from flykka.spark_bridge.functions.process_function import KeyedProcessFunction, ProcessFunction
from flykka.spark_bridge.functions.shown import shown
from flykka.spark_bridge.operators.process_functions import keyed_process_code, keys_of, one_input, process_code

if TYPE_CHECKING:
    from flykka.api.streams.data_stream import DataStream
    from flykka.api.streams.stream_type import StreamType
    from flykka.spark_bridge.operators.process import ProcessCode
    from flykka.spark_bridge.operators.process_functions import FunctionInputs
    from flykka.spark_bridge.program.prototype import Column, DataFrame, StructType


class ProcessVerb(ABC):
    """The verb of a stream without keys."""

    _program: Program
    _type: StreamType

    @property
    @abstractmethod
    def _origins(self) -> str:
        """The origins of the rows, for messages."""

    @abstractmethod
    def _processed(self, name: str, code: ProcessCode, prototype: DataFrame) -> DataStream:
        """Add the operator of this name that calls a function."""

    def process(self, function: ProcessFunction, output: StructType | str) -> DataStream:
        """Call a function for every row: rows of the columns `output`, such as `"id bigint, reason string"`.

        A copy of the function is opened and closed here. In a job it is pickled, and opened in Spark's Python workers.
        `get_side_output(tag)` gives what it writes to side outputs. The rows have the event time of this stream where
        they have its column.

        Raises:
            ProgramError: `function` is no ProcessFunction.
            StreamTypeError: the output is no columns, or the function cannot be pickled.
        """
        if not isinstance(function, ProcessFunction):
            raise ProgramError(
                f"process after {self._origins} takes a ProcessFunction, or behind key_by(...) a KeyedProcessFunction,"
                f" not {given(function)}"
            )
        name = f"process({type(function).__name__})"
        prototype, code = tried(name, lambda: process_code(self._reads, function, output))
        return self._processed(name, code, prototype)

    @property
    def _reads(self) -> FunctionInputs:
        row_type = self._type
        return one_input(row_type.prototype, row_type.event_time, self._program.files.resources)


class KeyedProcessVerb(ProcessVerb):
    """The verb of a keyed stream."""

    _keys: tuple[Column | str, ...]

    def process(self, function: KeyedProcessFunction | ProcessFunction, output: StructType | str) -> DataStream:
        """Call a function for every row, with the state and the timers of its key: rows of the columns `output`.

        As `process` of a stream without keys; and a copy of the function is opened to learn of its states.

        Raises:
            ProgramError: `function` is none of these functions.
            StreamTypeError: the output is no columns, or the function cannot be pickled.
        """
        if not isinstance(function, KeyedProcessFunction):
            return super().process(function, output)
        name = f"process({type(function).__name__})"
        keys = self._keys
        prototype, code = tried(
            name, lambda: keyed_process_code(self._reads, keys_of(self._type.prototype, keys), function, output)
        )
        return self._processed(name, code, prototype)


def given(function: object) -> str:
    """Show something that was given for a function, in messages."""
    return f"its class {function.__name__}" if isinstance(function, type) else shown(function)
