"""Makes of a function's code what is sent to Spark's Python workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from flykka.spark_bridge.functions.runtime_context import TaskInfo
from flykka.spark_bridge.worker.arrow_types import arrow_schema
from flykka.spark_bridge.worker.cached_files import on_executor
from flykka.spark_bridge.worker.function_spec import FunctionSpec, SideColumn

if TYPE_CHECKING:
    from flykka.spark_bridge.operators.bound_chain import OperatorContext
    from flykka.spark_bridge.operators.process_code import ProcessCode


def function_spec(context: OperatorContext, code: ProcessCode) -> FunctionSpec:
    """The function of one attempt; operator state it gets with each batch."""
    descriptor = context.descriptor
    vertex = descriptor.vertex
    return FunctionSpec(
        pickled=code.pickled,
        task=TaskInfo(
            uid=context.link.uid,
            task_name=vertex.name,
            index_of_this_subtask=descriptor.subtask,
            number_of_parallel_subtasks=vertex.parallelism,
            max_number_of_parallel_subtasks=vertex.max_parallelism,
            attempt_number=descriptor.attempt_number,
        ),
        subtask=f"{descriptor.job_id}/{context.link.uid}/{descriptor.subtask}",
        attempt=descriptor.attempt,
        inputs=code.inputs,
        emitted=arrow_schema(StructType(list(code.emitted))),
        side=tuple(SideColumn(tag=side.tag, name=side.column, schema=arrow_schema(side.columns)) for side in code.side),
        sees_watermarks=code.sees_watermarks,
        metrics={name: context.accumulator_of_metric(name, kind) for name, kind in code.metrics},
        broadcast_states=code.broadcast_states,
        resources=replace(context.resources, find=on_executor),
    )
