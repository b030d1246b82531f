"""The code of operators: live objects that stay in the driver.

A job graph names them by uid and fingerprint. A fingerprint is a short readable text of what must agree for stored
state to fit the code (the kind of operator, sizes, names and types) and of nothing that may differ between two runs of
one program. In each attempt the code makes an operator, which does the work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import functions as F

from flykka.actors.machines.state.schema_evolution import quoted
from flykka.messages.graph import job_graph
from flykka.messages.graph.job_graph import OperatorKind
from flykka.messages.state.handles import StateSchema
from flykka.messages.tasks.task import ResultPartitionDescriptor, TaskDeploymentDescriptor
from flykka.messages.wire.ids import OperatorId
from flykka.spark_bridge.errors import OperatorFailedError
from flykka.spark_bridge.program.accumulators import ACCUMULATORS, Accumulator, AccumulatorRegistry, MetricScope
from flykka.spark_bridge.program.prototype import has_event_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from flykka.spark_bridge.errors import UserLine
    from flykka.spark_bridge.functions.job_resources import JobResources
    from flykka.spark_bridge.functions.metric_group import MetricKind
    from flykka.spark_bridge.operators.global_aggregates import JobAggregates
    from flykka.spark_bridge.operators.operator import Operator
    from flykka.spark_bridge.operators.source_reader import SourceReaders
    from flykka.spark_bridge.program.aggregates import AggregatePlan
    from flykka.spark_bridge.program.sink import SinkJob
    from flykka.spark_bridge.rows.materialise import Slices
    from flykka.spark_bridge.session.attempt_scope import AttemptScope
    from flykka.spark_bridge.state.attempt_storage import AttemptStorage


class OperatorCode(ABC):
    """The code of one operator."""

    kind: ClassVar[OperatorKind]
    is_head: ClassVar[bool] = False
    """True if it must stand at the head of its chain."""
    is_computed: ClassVar[bool] = False
    """True if Spark computes expressions or functions of the user's for it."""
    aggregates_slices: ClassVar[bool] = False
    """True if it aggregates rows slice by slice."""

    @property
    def reads_side_output(self) -> str | None:
        """The side output of the operator before it that it reads; None reads the main output."""
        return None

    @property
    def side_outputs(self) -> tuple[str, ...]:
        """The side outputs that it may have."""
        return ()

    @property
    def state_schema(self) -> StateSchema | None:
        """The schema of keyed state, for readers of a checkpoint; None where there is none."""
        return None

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """The columns by which a row that it emits takes the place of earlier ones; none where every row stays."""
        return ()

    @property
    def has_coordinator(self) -> bool:
        """True if its function brings an operator coordinator."""
        return False

    def needs_order(self, *, readers_do: bool) -> bool:
        """Return True if the rows that it reads must be in order; `readers_do` if those of its results must."""
        return True

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text of what stored state must fit."""

    @abstractmethod
    def operator(self, context: OperatorContext) -> Operator[Slices]:
        """The operator of one attempt."""

    def batch_times(self, rows: DataFrame, event_time: str | None) -> Mapping[str, Column]:
        """The aggregates `first_micros` and `last_micros` over rows that it has made; `event_time` is the source's."""
        if event_time is None or not has_event_time(rows, event_time):
            return {}  # It was left out, or another column has its name.
        time = F.col(quoted(event_time))
        first, last = F.min(time).cast("timestamp"), F.max(time).cast("timestamp")
        return {"first_micros": F.unix_micros(first), "last_micros": F.unix_micros(last)}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyByCode:
    """The key expressions of a keyed edge. They are `of_state` where its rows were aggregated before the exchange.

    With `keeps_order` the rows of a key arrive in the order in which they were sent.
    """

    columns: tuple[Column | str, ...]
    of_state: bool = False
    keeps_order: bool = True

    @property
    def fingerprint(self) -> str:
        """The number of keys; the operator behind the edge knows their types."""
        return f"key_by({len(self.columns)})"


class AggregateCode(OperatorCode):
    """Aggregates of keyed rows, of which a part may be computed before the exchange."""

    is_head = True
    is_computed = True
    local_kind: ClassVar[OperatorKind]
    may_come_unaggregated: ClassVar[bool] = False
    """True if state may come as rows that `state_row_by_row` makes, where that is quicker."""

    plan: AggregatePlan

    def needs_order(self, *, readers_do: bool) -> bool:
        return False

    @abstractmethod
    def local_state(self, rows: DataFrame) -> DataFrame:
        """State made of rows."""

    def state_row_by_row(self, rows: DataFrame) -> DataFrame:
        """State made of each row by itself."""
        raise AssertionError(f"{self.kind} keeps rows that were aggregated")

    @abstractmethod
    def state_times(self) -> Mapping[str, Column]:
        """The event times of a batch of state, as `batch_times`."""

    @abstractmethod
    def previewed(self, rows: DataFrame) -> DataFrame:
        """The results of some rows, as if these were all there are."""


class LocalCode(OperatorCode):
    """The part of an operator that runs before the exchange."""

    @property
    def local_kind(self) -> OperatorKind:
        """The kind by which the runtime knows such parts: their own, unless they stand for several."""
        return self.kind

    def name_of(self, operator: str) -> str:
        return f"local {operator}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An operator with what reads it: operators of the chain, and outputs of the vertex.

    `name` is how the user calls the operator, `description` how an error does, and `written` the line that wrote it
    down. Readers whose code `reads_side_output` get the rows of that alone.
    """

    operator: job_graph.Operator
    name: str
    description: str
    written: UserLine | None
    code: OperatorCode
    readers: tuple[Link, ...]
    outputs: tuple[ResultPartitionDescriptor, ...]

    @property
    def uid(self) -> str:
        return self.operator.ref.uid

    @property
    def operator_id(self) -> OperatorId:
        return self.operator.operator_id

    def walk(self) -> Iterator[Link]:
        yield self
        for reader in self.readers:
            yield from reader.walk()

    def readers_of(self, side_output: str | None) -> tuple[Link, ...]:
        return tuple(reader for reader in self.readers if reader.code.reads_side_output == side_output)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """With what an operator works in one attempt.

    `storage` is for state, `readers` for sources, `sinks` for sinks, the rest for functions: `aggregates` are the
    global ones of the job, `resources` those that functions in the driver have. `in_background` does work, told in
    words, beside the stages; what it raises fails the attempt.
    """

    link: Link
    descriptor: TaskDeploymentDescriptor
    scope: AttemptScope
    storage: AttemptStorage
    readers: SourceReaders
    sinks: SinkJob
    aggregates: JobAggregates
    resources: JobResources
    accumulators: AccumulatorRegistry
    in_background: Callable[[str, Callable[[], None]], None]

    @property
    def operator_id(self) -> OperatorId:
        return self.link.operator_id

    def accumulator_of_metric(self, name: str, kind: MetricKind) -> Accumulator[Any]:
        """The accumulator that a metric of the operator is. Raises `AccumulatorConflictError`."""
        scope = MetricScope(self.operator_id, self.link.name)
        return self.accumulators.get_or_add(name, ACCUMULATORS[kind], self.scope.session.sparkContext, scope)

    @contextmanager
    def naming_failures(self, what: str = "operator") -> Iterator[None]:
        """Raise as `OperatorFailedError`, which names the operator behind `what`, what a function of the user's raises.

        Raises:
            OperatorFailedError: anything was raised.
        """
        try:
            yield
        except (Exception, SystemExit) as raised:
            raise OperatorFailedError(f"{what} {self.link.description}", self.link.written) from raised
