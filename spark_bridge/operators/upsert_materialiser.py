"""UpsertMaterialiser: changing rows become at most one upsert or delete per key of a sink and checkpoint.

Batches only change the weights of rows in the index. Before a barrier, and at the end of the input, the rows of the
keys that have changed are looked up, and one row of each key is published. Follows Flink's SinkUpsertMaterializer and
the rules of FLIP-558, with barriers in place of watermarks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.checkpointing.checkpoint import AlignmentType
from flykka.messages.tasks.exchange import WATERMARK_MAX
from flykka.spark_bridge.errors import ConflictingRowsError
from flykka.spark_bridge.operators.changes import IndexCode, SparkIndex, index_fields
from flykka.spark_bridge.operators.keyed_batch import KeyedBatchOperator, KeyedResult
from flykka.spark_bridge.operators.operator import Element, Output
from flykka.spark_bridge.rows.materialise import Slices
from flykka.spark_bridge.state.segment_files import StateRows
from flykka.spark_bridge.worker.process_batch import KeyedWork, ProcessKeyedBatch
from flykka.spark_bridge.worker.upsert_rules import CONFLICT, IS_PUBLISHED, ConflictRule, PublishRows, UpsertRules
from flykka.spark_bridge.worker.weighted_rows import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flykka.messages.checkpointing.checkpoint import CheckpointOptions
    from flykka.spark_bridge.operators.code import OperatorContext
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.operators.spark_keyed_batches import Readings


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertMaterialiserCode(IndexCode):
    """Emits the rows that `rules` choose, for a `table`. The state does not depend on the rule."""

    table: str
    rules: UpsertRules

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        return (StructField(WEIGHT, LongType()), StructField(IS_PUBLISHED, BooleanType()))

    def operator(self, context: OperatorContext) -> Operator[Slices]:
        return UpsertMaterialiser(context, self)

    def results(self, emitted: DataFrame) -> DataFrame:
        return emitted


def upsert_materialiser_code(
    prototype: DataFrame, table: str, rules: UpsertRules
) -> tuple[DataFrame, UpsertMaterialiserCode]:
    """Return the prototype of rows with their kinds, and the code, for weighted rows.

    Raises:
        PrototypeError: a column has a type that cannot be compared.
    """
    keys = tuple(map(quoted, rules.keys))
    fields, stored = index_fields(prototype, keys, rules.columns)
    emitted = StructType(
        [
            *(StructField(name, stored[name].dataType) for name in rules.columns),
            StructField(rules.row_kind, StringType()),
        ]
    )
    code = UpsertMaterialiserCode(
        does="upserts",
        keys=keys,
        columns=rules.columns,
        key_fields=fields,
        emitted=tuple(emitted),
        table=table,
        rules=rules,
    )
    return prototype.sparkSession.createDataFrame([], emitted), code


class UpsertMaterialiser(KeyedBatchOperator[Slices, StateRows]):
    """Publishes rows before barriers; nothing is pending in a snapshot."""

    def __init__(self, context: OperatorContext, code: UpsertMaterialiserCode) -> None:
        self._rows = _SparkUpserts(context, code)
        super().__init__(context.operator_id, self._rows, self._rows.backend)

    def before_snapshot(self, options: CheckpointOptions) -> Output[Slices] | None:
        # Batches that an unaligned barrier has overtaken may remove one of two rows.
        return self._published(judges=options.alignment is AlignmentType.ALIGNED)

    def advance_watermark(self, watermark_ms: int, processing_time_ms: int) -> Output[Slices]:
        """Publish rows at the end of the input, because some tasks of a batch job end before its only checkpoint."""
        return (self._published(judges=True) if watermark_ms == WATERMARK_MAX else None) or Output()

    def _published(self, *, judges: bool) -> Output[Slices] | None:
        since = self._rows.changed_since
        if since is None:
            return None
        result = self.compute(lambda readings, version: self._rows.published(readings, version, since, judges=judges))

        def on_emitted() -> None:
            self.store.add(result.outcome().segment)

        return Output(rows=result.rows, on_emitted=on_emitted)


class _SparkUpserts(SparkIndex[UpsertRules]):
    emits_with_batches = False
    report_columns = (StructField(CONFLICT, StringType()),)

    def __init__(self, context: OperatorContext, code: UpsertMaterialiserCode) -> None:
        super().__init__(context, code, len(code.keys), code.rules)
        self.changed_since: int | None = None
        """The version of the first batch since the rows were published; None if there was no such batch."""
        self._table = code.table
        self._rules = code.rules

    @property
    def work(self) -> Callable[..., KeyedWork]:
        return ProcessKeyedBatch

    def processed(self, element: Element[Slices], readings: Readings, version: int) -> KeyedResult[Slices, StateRows]:
        if self.changed_since is None:
            self.changed_since = version
        return super().processed(element, readings, version)

    def published(
        self, readings: Readings, version: int, since: int, *, judges: bool
    ) -> KeyedResult[Slices, StateRows]:
        """Publish the rows of the keys that were changed by version `since` or later.

        Without `judges`, keys with two rows are judged at the next publication.
        """
        touched: Sequence[Any] = [each for each in readings if each.segment.version >= since]
        work = partial(PublishRows, touched=self.backend.read(touched).names, since=since, judges=judges)
        if judges or self._rules.rule is not ConflictRule.ERROR:
            self.changed_since = None
        return self._worked(self._context.scope.session.range(1), work, self._rules, readings, version)

    def on_report(self, numbers: Mapping[str, Any]) -> None:
        if numbers[CONFLICT]:
            raise ConflictingRowsError(
                f"two rows for the table {self._table} have {numbers[CONFLICT]}. With ON CONFLICT DO DEDUPLICATE at the"
                " end of the INSERT the greatest row of a key is kept, with DO NOTHING the first; a GROUP BY of the key"
                " gives one row"
            )
