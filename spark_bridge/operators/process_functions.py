"""Functions that are called row by row. When the program is built, a copy is opened and closed as a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, _parse_datatype_string

from flykka.actors.machines.state.schema_evolution import columns_ddl, quoted
from flykka.messages.state.handles import StateSchema
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner, ProcessFunctionRunner
from flykka.spark_bridge.functions.job_resources import NO_RESOURCES, JobResources
from flykka.spark_bridge.functions.operator_coordinator import CoordinatedFunction
from flykka.spark_bridge.operators.process import KeyedProcessCode, ProcessCode
from flykka.spark_bridge.program.pickled import pickled_function
from flykka.spark_bridge.program.prototype import check_types, emitted_columns, key_schema, transformed
from flykka.spark_bridge.rows.type_support import Use
from flykka.spark_bridge.worker.inputs import OneInput
from flykka.spark_bridge.worker.keys import KEY_PREFIX
from flykka.spark_bridge.worker.listed_state import EVENT_TIMERS, PROCESSING_TIMERS, TOUCHED
from flykka.spark_bridge.worker.segment_file import NEXT_EVENT_TIMER, NEXT_PROCESSING_TIMER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flykka.spark_bridge.functions.event_time import EventTime
    from flykka.spark_bridge.functions.function_runner import FunctionWithKeys, FunctionWithoutKeys
    from flykka.spark_bridge.functions.state_descriptors import MapStateDescriptor, StateDescriptor
    from flykka.spark_bridge.worker.inputs import Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionInputs:
    session: SparkSession
    inputs: Inputs
    broadcast_states: tuple[MapStateDescriptor, ...] = ()
    resources: JobResources = NO_RESOURCES


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of a function's rows: their columns, and the names and types by which the user knows them."""

    columns: tuple[Column | str, ...]
    schema: StructType

    @property
    def fields(self) -> tuple[StructField, ...]:
        return tuple(StructField(f"{KEY_PREFIX}{place}", key.dataType) for place, key in enumerate(self.schema))


def one_input(prototype: DataFrame, event_time: EventTime | None, resources: JobResources) -> FunctionInputs:
    """Return the input of a function on one stream. Raises `PrototypeError` if Python cannot represent its rows."""
    check_types(prototype.schema, Use.PYTHON)
    read = OneInput(columns=tuple(prototype.columns), event_time=event_time)
    return FunctionInputs(session=prototype.sparkSession, inputs=read, resources=resources)


def keys_of(prototype: DataFrame, keys: Sequence[Column | str]) -> Keys:
    return Keys(columns=tuple(keys), schema=key_schema(prototype, keys))


def process_code(
    reads: FunctionInputs, function: FunctionWithoutKeys, output: str | StructType
) -> tuple[DataFrame, ProcessCode]:
    """Return the prototype of a function's results with the columns of `output`, and its code.

    Opens and closes a copy of the function, and passes on its exceptions.

    Raises:
        PrototypeError: the columns of the output cannot be parsed, or the function cannot be pickled.
    """
    emitted, pickled = declared_rows(reads.session, output), pickled_function(function)
    tried = ProcessFunctionRunner(
        cloudpickle.loads(pickled), broadcast_states=reads.broadcast_states, resources=reads.resources
    )
    _open_and_close(tried)
    return emitted, ProcessCode(
        pickled=pickled,
        inputs=reads.inputs,
        emitted=tuple(emitted.schema),
        sees_watermarks=tried.sees_watermarks,
        metrics=tried.metrics,
        operator_state=tried.operator_state,
        broadcast_states=reads.broadcast_states,
        coordinated=function if isinstance(function, CoordinatedFunction) else None,
    )


def keyed_process_code(
    reads: FunctionInputs, keys: Keys, function: FunctionWithKeys, output: str | StructType
) -> tuple[DataFrame, KeyedProcessCode]:
    """Return the prototype of a function's results with the columns of `output`, and its code.

    Opens a copy of the function, which registers its states, and closes it. Passes on its exceptions.

    Raises:
        PrototypeError: the columns of the output cannot be parsed, or the function cannot be pickled.
    """
    emitted, pickled = declared_rows(reads.session, output), pickled_function(function)
    tried = KeyedFunctionRunner(
        cloudpickle.loads(pickled), broadcast_states=reads.broadcast_states, resources=reads.resources
    )
    _open_and_close(tried)
    expiring = [each for each in tried.descriptors if each.ttl is not None]
    return emitted, KeyedProcessCode(
        pickled=pickled,
        keys=keys.columns,
        key_fields=keys.fields,
        state_fields=_state_fields(tried.descriptors),
        state_schema=StateSchema(
            keys=columns_ddl((key.name, key.dataType.simpleString()) for key in keys.schema),
            columns=columns_ddl((each.name, each.column_type) for each in tried.descriptors),
            operator_state=tried.operator_state,
        ),
        operator_state=tried.operator_state,
        inputs=reads.inputs,
        emitted=tuple(emitted.schema),
        expiring_states=pickled_function(expiring) if expiring else None,
        sees_watermarks=tried.sees_watermarks,
        metrics=tried.metrics,
        broadcast_states=reads.broadcast_states,
        coordinated=function if isinstance(function, CoordinatedFunction) else None,
    )


def declared_rows(session: SparkSession, columns: str | StructType) -> DataFrame:
    """Return an empty DataFrame of declared columns. Raises `PrototypeError` if they cannot be parsed."""
    read = emitted_columns(columns)
    declared = transformed(session.createDataFrame([], read), lambda rows: rows)
    return transformed(declared, lambda rows: rows.select(*(F.col(quoted(name)) for name in read.names)))


def _open_and_close(tried: ProcessFunctionRunner | KeyedFunctionRunner) -> None:
    """Collect a function's states and metrics. Its snapshot is tested too, since every batch ends with a snapshot."""
    try:
        tried.open()
        tried.snapshot_state()
    finally:
        tried.close()


def _state_fields(descriptors: Sequence[StateDescriptor]) -> tuple[StructField, ...]:
    values = [(each.name, each.column_type) for each in descriptors]
    touched = [(f"{TOUCHED}{each.name}", each.touched_type) for each in descriptors if each.touched_type is not None]
    return (
        *(StructField(name, _parse_datatype_string(ddl)) for name, ddl in (*values, *touched)),
        StructField(EVENT_TIMERS, ArrayType(LongType())),
        StructField(PROCESSING_TIMERS, ArrayType(LongType())),
        StructField(NEXT_EVENT_TIMER, LongType()),
        StructField(NEXT_PROCESSING_TIMER, LongType()),
    )
