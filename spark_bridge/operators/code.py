"""The code of operators: live objects that stay in the driver.

A job graph refers to them by uid and fingerprint. A fingerprint is a short readable text of all properties that must be
the same for stored state to fit the code: the kind of operator, sizes, names and types. It contains nothing that may
differ between two runs of one program. In each attempt the code creates an operator, which processes the batches.
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
    kind: ClassVar[OperatorKind]
    is_head: ClassVar[bool] = False
    """True if the operator must be at the head of its chain."""
    is_computed: ClassVar[bool] = False
    """True if Spark evaluates the user's expressions or functions for the operator."""
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
    def is_stored_by_reader(self) -> bool:
        """True if the next task stores the batches that it receives as its state."""
        return False

    @property
    def state_schema(self) -> StateSchema | None:
        """The schema of keyed state, for readers of a checkpoint; None without keyed state."""
        return None

    @property
    def upsert_keys(self) -> tuple[str, ...]:
        """The columns by which an emitted row replaces earlier rows; empty if all rows are appended."""
        return ()

    @property
    def has_coordinator(self) -> bool:
        return False

    def needs_order(self, *, readers_do: bool) -> bool:
        """Return True if the operator must receive rows in order. `readers_do` is true if its readers must."""
        return True

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text of all properties that must be the same for stored state to fit the code."""

    @abstractmethod
    def operator(self, context: OperatorContext) -> Operator[Slices]: ...

    def batch_times(self, rows: DataFrame, event_time: str | None) -> Mapping[str, Column]:
        """Return the aggregates `first_micros` and `last_micros` over its output, by the column `event_time`."""
        if event_time is None or not has_event_time(rows, event_time):
            return {}  # The event-time column was dropped, or another column has its name.
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
        """The number of keys. The operator after the edge checks their types."""
        return f"key_by({len(self.columns)})"


class AggregateCode(OperatorCode):
    """Aggregates of keyed rows, partly computed before the exchange."""

    is_head = True
    is_computed = True
    local_kind: ClassVar[OperatorKind]
    may_come_unaggregated: ClassVar[bool] = False
    """True if `state_row_by_row` may convert rows to state without aggregating them, if that is faster."""

    plan: AggregatePlan

    def needs_order(self, *, readers_do: bool) -> bool:
        return False

    @abstractmethod
    def local_state(self, rows: DataFrame) -> DataFrame: ...

    def state_row_by_row(self, rows: DataFrame) -> DataFrame:
        raise AssertionError(f"{self.kind} does not convert single rows into state: it aggregates them")

    @abstractmethod
    def state_times(self) -> Mapping[str, Column]:
        """The aggregates of `batch_times`, over a batch of state."""

    @abstractmethod
    def previewed(self, rows: DataFrame) -> DataFrame:
        """Return the results as if these rows were the whole input, for a preview."""


class LocalCode(OperatorCode):
    """The part of an operator that runs before the exchange."""

    @property
    def local_kind(self) -> OperatorKind:
        """The kind of this operator in the runtime, which may represent several kinds of operators of the program."""
        return self.kind

    def name_of(self, operator: str) -> str:
        return f"local {operator}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An operator and its readers: operators of the chain, and outputs of the vertex.

    `name` is the user's name for the operator, `description` its name in errors, and `user_line` the line of the
    program that created it. A reader whose code has `reads_side_output` receives only the rows of that side output.
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

    `storage` is for state, `readers` for sources, and `sinks` for sinks. All other fields are for functions:
    `aggregates` are the job's global aggregates, `resources` the resources of functions in the driver. `in_background`
    runs work with a description in parallel to stages; if the work raises an exception, the attempt fails.
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
        scope = MetricScope(self.operator_id, self.link.name)
        return self.accumulators.get_or_add(name, ACCUMULATORS[kind], self.scope.session.sparkContext, scope)

    @contextmanager
    def naming_failures(self, what: str = "operator") -> Iterator[None]:
        """Wrap exceptions of the user's function in `OperatorFailedError`, which names the operator after `what`."""
        try:
            yield
        except (Exception, SystemExit) as raised:
            raise OperatorFailedError(f"{what} {self.link.description}", self.link.user_line) from raised
