"""Functions with keyed state, as a program gives them: opened once where they are written, to learn their state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructField, StructType, _parse_datatype_string

from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner
from flykka.spark_bridge.operators.code import KeyedProcessCode
from flykka.spark_bridge.program.prototype import PrototypeError, transformed
from flykka.spark_bridge.worker.keyed_function import EVENT_TIMERS, PROCESSING_TIMERS, TOUCHED
from flykka.spark_bridge.worker.keys import KEY_PREFIX
from flykka.spark_bridge.worker.segment_file import NEXT_TIMER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.functions.process_function import KeyedProcessFunction


def keyed_process_code(
    prototype: DataFrame,
    keys: Sequence[Column | str],
    function: KeyedProcessFunction,
    output: str | StructType,
    event_time: str | None,
) -> tuple[DataFrame, KeyedProcessCode]:
    """The prototype of what a function emits, rows of `output`, and its code.

    A copy of the function is opened, which registers its states, and closed. What it raises is passed on.

    Raises:
        PrototypeError: the columns of the output cannot be read, or the function cannot be pickled.
    """
    try:
        columns = output if isinstance(output, StructType) else _parse_datatype_string(output)
    except PySparkException as refused:
        raise PrototypeError(f"the columns of the output, {output!r}, cannot be read: {refused}") from None
    assert isinstance(columns, StructType), "DDL of columns is read as a struct"
    try:
        pickled: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    except Exception as refused:  # noqa: BLE001 - whatever the user's objects raise
        raise PrototypeError(f"the function cannot be sent to Spark's workers: {refused}") from None
    runner = KeyedFunctionRunner(cloudpickle.loads(pickled))
    try:
        runner.open()
    finally:
        runner.close()
    keyed = transformed(prototype, lambda rows: rows.select(*keys)).schema
    code = KeyedProcessCode(
        pickled=pickled,
        keys=tuple(keys),
        key_fields=tuple(StructField(f"{KEY_PREFIX}{place}", key.dataType) for place, key in enumerate(keyed)),
        state_fields=(
            *(_field(each.name, each.column_type) for each in runner.descriptors),
            *(_field(f"{TOUCHED}{each.name}", each.touched_type) for each in runner.descriptors if each.touched_type),
            StructField(EVENT_TIMERS, ArrayType(LongType())),
            StructField(PROCESSING_TIMERS, ArrayType(LongType())),
            StructField(NEXT_TIMER, LongType()),
        ),
        columns=tuple(prototype.columns),
        time_column=event_time,
        emitted=tuple(columns),
    )
    made = prototype.sparkSession.createDataFrame([], columns)
    return transformed(made, lambda rows: rows.select(*(F.col(f"`{name}`") for name in columns.names))), code


def _field(name: str, ddl: str) -> StructField:
    return StructField(name, _parse_datatype_string(ddl))
