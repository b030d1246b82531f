"""Previews a stream: its operators process the first batch of its sources, without a job, state or sinks.

Every operator processes the batch as in a job. An aggregation emits its results as at the end of the input.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from flykka.errors import ProgramError, StreamTypeError
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.errors import EmptySourceError, NotADataFrameError
from flykka.spark_bridge.functions.checkpointed_function import initialize_state
from flykka.spark_bridge.functions.operator_states import OperatorStates
from flykka.spark_bridge.operators.code import AggregateCode
from flykka.spark_bridge.operators.join_code import JoinCode
from flykka.spark_bridge.operators.source import SourceCode
from flykka.spark_bridge.operators.stateless import TransformCode
from flykka.spark_bridge.operators.timestamps import TimestampsAndWatermarksCode
from flykka.spark_bridge.program.applied import applied
from flykka.spark_bridge.program.rich_function import RichFunction, RuntimeContext
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.marks import without_marks
from flykka.spark_bridge.rows.materialise import together
from flykka.spark_bridge.worker.frames import frame_of
from flykka.spark_bridge.worker.job_resources import part_of, rows_of
from flykka.spark_bridge.worker.time_columns import collected_table

if TYPE_CHECKING:
    import pandas as pd

    from flykka.api.streams.transformation import Input, Transformation
    from flykka.messages.tasks.source import SourceSplit
    from flykka.spark_bridge.functions.job_resources import Collect, JobResources
    from flykka.spark_bridge.program.prototype import DataFrame, SparkSession
    from flykka.spark_bridge.user_files.job_files import JobFiles

ROWS_READ = 10_000
"""The maximum number of rows per source; other rows of the first batch are ignored."""

PATIENCE_SECONDS = 1.0
"""The seconds to wait for the first row of a source that generates its rows one by one."""

_PAUSE_SECONDS = 0.1


def preview(session: SparkSession, inputs: tuple[Input, ...], rows: int, files: JobFiles) -> pd.DataFrame:
    """Return at most `rows` rows of these inputs; the operators' functions can access `files`.

    Raises:
        EmptySourceError: a source has no data yet.
        SourceError: a source cannot be read.
        ProgramError: an operator needs a job.
    """
    with ExitStack() as stack:
        files.distribute(session)
        stack.callback(files.withdraw)
        reader = _Preview(session, stack, files.resources)
        return frame_of(collected_table(reader.united(inputs).limit(rows)))


class _Preview:
    """Computes the rows of operators, each operator once even if it has several readers."""

    def __init__(self, session: SparkSession, stack: ExitStack, resources: JobResources) -> None:
        self._session = session
        self._resources = resources
        self._opened = stack
        self._made: dict[Transformation, DataFrame] = {}

    def united(self, inputs: tuple[Input, ...]) -> DataFrame:
        first, *others = (self._rows(each.source) for each in inputs)
        for other in others:
            first = first.union(other)
        return first

    def _rows(self, operator: Transformation) -> DataFrame:
        if operator not in self._made:
            self._made[operator] = self._computed(operator)
        return self._made[operator]

    def _computed(self, operator: Transformation) -> DataFrame:
        match operator.code:
            case SourceCode() as code:
                return self._first_batch(operator, code)
            case TransformCode() as code:
                return self._transformed(operator, code)
            case AggregateCode() as code:
                return code.previewed(self.united(operator.inputs))
            case JoinCode() as code:
                left, right = operator.inputs[: code.left_gates], operator.inputs[code.left_gates :]
                return code.previewed(self.united(left), self.united(right))
            case TimestampsAndWatermarksCode():
                return self.united(operator.inputs)
            case _:
                raise ProgramError(
                    f"{operator} ({operator.call_site}) cannot be previewed: its output depends on earlier rows of a"
                    " job; preview the stream before it, or execute a job"
                )

    def _first_batch(self, operator: Transformation, code: SourceCode) -> DataFrame:
        schema = code.source.prototype(self._session).schema
        slices = code.source.read(self._session, schema, [self._first_split(operator, code)], in_slices=False)
        rows = without_marks(together(slices))
        if (aside := code.source.side_output) is not None:
            rows = rows.where(f"{aside.column} IS NULL").drop(aside.column)
        return rows.limit(ROWS_READ)

    def _first_split(self, operator: Transformation, code: SourceCode) -> SourceSplit:
        discovery = code.source.split_discovery(OperatorId("preview"), FileSystem(self._session))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            splits = discovery.discover(b"").splits
            if splits:
                return splits[0]
            if discovery.interval_ms is None or time.monotonic() > deadline:
                raise EmptySourceError(
                    f"nothing to preview: {operator} ({operator.call_site}) reads {code.source}, which contains no"
                    " rows yet; call preview again later"
                )
            time.sleep(_PAUSE_SECONDS)

    def _transformed(self, operator: Transformation, code: TransformCode) -> DataFrame:
        rows = self.united(tuple(each for each in operator.inputs if each.broadcast_variable is None))
        function = code.function
        if isinstance(function, RichFunction):
            # The function is copied because it keeps state while it runs, and the program's own function must not
            # change.
            function = copy(function)
            self._opened.callback(function.close)
            initialize_state(function, OperatorStates())
            context = RuntimeContext(
                uid=operator.uid,
                task_name=operator.name,
                session=self._session,
                _resources=self._resources_of(operator),
            )
            function.open(context)
        try:
            return applied(function, rows)
        except NotADataFrameError as returned:
            raise StreamTypeError(f"{operator}: {returned}") from None
        except Exception as raised:
            raised.add_note(f"flykka: while {operator} ({operator.call_site}) was previewed")
            raise

    def _resources_of(self, operator: Transformation) -> JobResources:
        """Return the job's files, and broadcast variables that are filled from the first batches of their sources."""
        names = {each.broadcast_variable for each in operator.inputs if each.broadcast_variable is not None}
        variables = {name: self._variable(operator, name) for name in names}
        return replace(self._resources, broadcast_variables=variables)

    def _variable(self, operator: Transformation, name: str) -> Collect:
        rows = self.united(tuple(each for each in operator.inputs if each.broadcast_variable == name))
        return lambda: rows_of([part_of(collected_table(rows))])
