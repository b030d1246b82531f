"""The columns and functions of operators whose state is a row for each key, as their code says them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

    from flykka.messages.state.handles import StateSchema
    from flykka.spark_bridge.program.side_output import SideOutput
    from flykka.spark_bridge.worker.process_batch import BatchFunction
    from flykka.spark_bridge.worker.segment_file import CleanUp


@runtime_checkable
class KeyedCode(Protocol):
    """The columns of a `KeyedBatchOperator`: of its keys, its state, and the rows that it reads and emits."""

    @property
    def key_fields(self) -> tuple[StructField, ...]:
        """The columns of the keys."""

    @property
    def state_fields(self) -> tuple[StructField, ...]:
        """The columns of state."""

    @property
    def state_schema(self) -> StateSchema | None:
        """The schema of state by the names that users know."""

    @property
    def emitted(self) -> tuple[StructField, ...]:
        """The columns that the function emits."""

    @property
    def side(self) -> tuple[SideOutput, ...]:
        """The side outputs that are read."""

    def keyed(self, rows: DataFrame) -> DataFrame:
        """The columns of rows that the function needs, and those of the keys."""

    def results(self, emitted: DataFrame) -> DataFrame:
        """The rows that leave the operator."""


class TableCode(KeyedCode, Protocol):
    """A function of all rows of a batch."""

    def function(self, watermark_ms: int) -> BatchFunction:
        """The function that a worker applies to a batch which comes behind a watermark."""

    def clean_up(self, watermark_ms: int) -> CleanUp | None:
        """Remove state that nobody needs behind a watermark; None where all of it is needed."""


class TimedTableCode(TableCode, Protocol):
    """A function of all rows of a batch, and one of event-time timers."""

    @property
    def emits_with_batches(self) -> bool:
        """False if the function of batches changes state alone."""

    def firing(self, due_ms: int) -> BatchFunction:
        """The function that a worker applies to the keys with timers up to `due_ms`."""
