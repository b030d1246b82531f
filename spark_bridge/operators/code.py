"""The code of operators: live objects that stay in the driver.

A job graph refers to them by uid and fingerprint. A fingerprint is a short readable text of everything that must agree
for stored state to fit the code (the kind of operator, sizes, names and types) and of nothing that may differ between
two runs of one program. In each attempt the code creates an operator, which does the work.
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
    """True if the operator must be at the head of its chain."""
    is_computed: ClassVar[bool] = False
    """True if Spark evaluates the user's expressions or functions for it."""
    aggregates_slices: ClassVar[bool] = False
    """True if the operator aggregates rows slice by slice."""

    @property
    def reads_side_output(self) -> str | None:
        """The side output of the upstream operator that this operator reads; None for the main output."""
        return None

    @property
    def side_outputs(self) -> tuple[str, ...]:
        """Names of the side outputs that this operator may emit."""
        return ()

    @property
    def state_schema(self) -> StateSchema | None:
        """The schema of keyed state, for readers of a checkpoint; None without keyed state."""
        return None

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """The columns by which an emitted row replaces earlier ones; empty if all rows are appended."""
        return ()

    @property
    def has_coordinator(self) -> bool:
        """True if the operator's function provides an operator coordinator."""
        return False

    def needs_order(self, *, readers_do: bool) -> bool:
        """Return True if the rows that it reads must be in order; `readers_do` if those of its results must."""
        return True

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text of everything that stored state must agree with."""

    @abstractmethod
    def operator(self, context: OperatorContext) -> Operator[Slices]:
        """Create the operator of one attempt."""

    def batch_times(self, rows: DataFrame, event_time: str | None) -> Mapping[str, Column]:
        """Return the aggregates `first_micros` and `last_micros` over its output; `event_time` is the source's."""
        if event_time is None or not has_event_time(rows, event_time):
            return {}  # The column was dropped, or another column has its name.
        time = F.col(quoted(event_time))
        first, last = F.min(time).cast("timestamp"), F.max(time).cast("timestamp")
        return {"first_micros": F.unix_micros(first), "last_micros": F.unix_micros(last)}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyByCode:
    """The key expressions of a keyed edge. `of_state` is set if its rows were aggregated before the exchange.

    With `keeps_order` the rows of a key arrive in the order in which they were sent.
    """

    columns: tuple[Column | str, ...]
    of_state: bool = False
    keeps_order: bool = True

    @property
    def fingerprint(self) -> str:
        """The number of keys; the operator after the edge checks their types."""
        return f"key_by({len(self.columns)})"


class AggregateCode(OperatorCode):
    """Aggregates of keyed rows, partly computed before the exchange."""

    is_head = True
    is_computed = True
    local_kind: ClassVar[OperatorKind]
    may_come_unaggregated: ClassVar[bool] = False
    """True if state may arrive as rows of `state_row_by_row`, when that is faster."""

    plan: AggregatePlan

    def needs_order(self, *, readers_do: bool) -> bool:
        return False

    @abstractmethod
    def local_state(self, rows: DataFrame) -> DataFrame: ...

    def state_row_by_row(self, rows: DataFrame) -> DataFrame:
        """Convert each row into state by itself."""
        raise AssertionError(f"{self.kind} does not convert single rows into state: it aggregates them")

    @abstractmethod
    def state_times(self) -> Mapping[str, Column]:
        """The event times of a batch of state, as `batch_times`."""

    @abstractmethod
    def previewed(self, rows: DataFrame) -> DataFrame:
        """Return the results of some rows as if they were the whole input."""


class LocalCode(OperatorCode):
    """The part of an operator that runs before the exchange."""

    @property
    def local_kind(self) -> OperatorKind:
        """The kind of this operator in the runtime, which may cover several kinds of the program."""
        return self.kind

    def name_of(self, operator: str) -> str:
        return f"local {operator}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An operator and its readers: operators of the chain, and outputs of the vertex.

    `name` is the user's name for the operator, `description` its name in errors, and `user_line` the line of the
    program that created it. Readers whose code `reads_side_output` receive only the rows of that.
    """

    operator: job_graph.Operator
    name: str
    description: str
    user_line: UserLine | None
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
    """The environment of an operator in one attempt.

    `storage` is for state, `readers` for sources, `sinks` for sinks, the rest for functions: `aggregates` are the
    global ones of the job, `resources` those of functions in the driver. `in_background` runs described work in
    parallel to stages; an exception of it fails the attempt.
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
        """Return the accumulator of a metric of the operator. Raises `AccumulatorConflictError`."""
        scope = MetricScope(self.operator_id, self.link.name)
        return self.accumulators.get_or_add(name, ACCUMULATORS[kind], self.scope.session.sparkContext, scope)

    @contextmanager
    def naming_failures(self, what: str = "operator") -> Iterator[None]:
        """Raise exceptions of the user's function as `OperatorFailedError`, which names the operator after `what`."""
        try:
            yield
        except (Exception, SystemExit) as raised:
            raise OperatorFailedError(f"{what} {self.link.description}", self.link.user_line) from raised
