"""The program as the user wrote it: operators by uid and the edges between them (Flink's StreamGraph).

Errors name the uid at fault. How operators become vertices is decided in `chaining` and `job_graph_generator`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from flykka.actors.errors import GraphError
from flykka.actors.machines.state.key_groups import UPPER_BOUND_MAX_PARALLELISM
from flykka.messages.graph import job_graph
from flykka.messages.state.handles import StateSchema


class ChainingStrategy(StrEnum):
    """The chaining of an operator: with its input and its consumers, only with its consumers, or not at all."""

    ALWAYS = "ALWAYS"
    HEAD = "HEAD"
    NEVER = "NEVER"


class ExchangeMode(StrEnum):
    """The exchange of an edge's rows: pipelined, blocking, or as the graph specifies."""

    UNDEFINED = "UNDEFINED"
    PIPELINED = "PIPELINED"
    BATCH = "BATCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamNode:
    """An operator. A `None` sharing group is inherited from the inputs, a `None` max_parallelism is derived.

    `publishes_per_checkpoint` marks a sink whose rows become visible with a checkpoint, `event_time` an operator that
    fires with the watermark. For an operator that generates watermarks, `watermark_delay_ms` is their distance to the
    newest row, `idle_timeout_ms` the time without rows after which it is idle, and `quiet_period_ms` the time without
    rows after which event time advances with the clock. A source with a `watermark_alignment` waits for other sources
    of its group.

    A uid is automatic if the user has not set it; the id is then structural (`operator_ids`). `uid_hash` is an
    additional id from the user. `state_schema` describes the state of the operator. Among rows with equal `upsert_keys`
    columns, only the newest is valid. An operator with a coordinator is the head of its task. `parallelism_limit`, if
    set, is the maximum parallelism that the operator supports.
    """

    uid: str
    name: str
    kind: job_graph.OperatorKind
    ref: job_graph.OperatorRef
    parallelism: int = 1
    max_parallelism: int | None = None
    parallelism_limit: int | None = None
    slot_sharing_group: str | None = None
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    publishes_per_checkpoint: bool = False
    event_time: bool = False
    watermark_delay_ms: int | None = None
    idle_timeout_ms: int | None = None
    quiet_period_ms: int | None = None
    watermark_alignment: job_graph.WatermarkAlignment | None = None
    on_monotony_violation: job_graph.MonotonyViolationHandler = job_graph.MonotonyViolationHandler.IGNORE
    punctuated_watermarks: bool = False
    has_automatic_uid: bool = False
    uid_hash: str | None = None
    co_location_group: str | None = None
    resources: job_graph.ResourceSpec = field(default_factory=job_graph.ResourceSpec)
    state_schema: StateSchema | None = None
    upsert_keys: tuple[str, ...] = ()
    has_coordinator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamEdge:
    """An edge from one operator to an input of another. `key_by` has the key expressions of a HASH edge.

    The target of a side output is always chained to its source. Functions of the target read the rows of a
    `broadcast_variable`, and the target begins when it has all of them.

    Edges are compared by identity, because a stream united with itself has two equal edges.
    """

    source_uid: str
    target_uid: str
    ship_strategy: job_graph.ShipStrategy = job_graph.ShipStrategy.FORWARD
    key_by: job_graph.OperatorRef | None = None
    exchange_mode: ExchangeMode = ExchangeMode.UNDEFINED
    is_side_output: bool = False
    broadcast_variable: str | None = None


class StreamGraph:
    """The operators and edges of a program in the order of addition, which all later steps preserve.

    In a BATCH program all exchanges are blocking.
    """

    def __init__(
        self,
        *,
        chaining_enabled: bool = True,
        coalesces_batches: bool = True,
        mini_batch_latency_ms: int = 0,
        schedule_mode: job_graph.ScheduleMode = job_graph.ScheduleMode.EAGER,
        job_type: job_graph.JobType = job_graph.JobType.STREAMING,
        approximate_local_recovery: bool = False,
    ) -> None:
        self.job_type = job_type
        self.approximate_local_recovery = approximate_local_recovery
        self.chaining_enabled = chaining_enabled
        self.coalesces_batches = coalesces_batches
        self.mini_batch_latency_ms = mini_batch_latency_ms
        self.schedule_mode = schedule_mode
        self._nodes: dict[str, StreamNode] = {}
        self._owner_of_hash: dict[str, str] = {}
        self._inputs: dict[str, list[StreamEdge]] = {}
        self._outputs: dict[str, list[StreamEdge]] = {}

    def add_node(self, node: StreamNode) -> None:
        """Add an operator. Raises `GraphError` if its uid already exists or its parallelism is invalid."""
        if node.uid in self._nodes:
            raise GraphError(f"two operators have the uid {node.uid!r}")
        if node.parallelism < 1:
            raise GraphError(f"the parallelism of {node.uid!r} is {node.parallelism}; it must be 1 or more")
        if node.max_parallelism is not None and not 1 <= node.max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
            raise GraphError(
                f"the maximum parallelism of {node.uid!r} is {node.max_parallelism}; it must be between 1 and"
                f" {UPPER_BOUND_MAX_PARALLELISM}"
            )
        if node.uid_hash is not None and self._owner_of_hash.setdefault(node.uid_hash, node.uid) != node.uid:
            raise GraphError(
                f"the operators {self._owner_of_hash[node.uid_hash]!r} and {node.uid!r} have the same uid hash,"
                f" {node.uid_hash}: give each one of its own"
            )
        self._nodes[node.uid] = node
        self._inputs[node.uid] = []
        self._outputs[node.uid] = []

    def add_edge(self, edge: StreamEdge) -> None:
        """Connect two operators that were added before. Raises `GraphError` if that is not possible."""
        for uid in (edge.source_uid, edge.target_uid):
            if uid not in self._nodes:
                raise GraphError(f"the edge {edge.source_uid!r} -> {edge.target_uid!r} names {uid!r}, which is unknown")
        source, target = self._nodes[edge.source_uid], self._nodes[edge.target_uid]
        arrow = f"{source.uid!r} -> {target.uid!r}"
        if target.kind is job_graph.OperatorKind.SOURCE:
            raise GraphError(f"the edge {arrow} leads into a source")
        if source.kind is job_graph.OperatorKind.SINK:
            raise GraphError(f"the edge {arrow} leads out of a sink")
        if edge.ship_strategy is job_graph.ShipStrategy.FORWARD and source.parallelism != target.parallelism:
            raise GraphError(
                f"forward partitioning does not allow change of parallelism: the edge {arrow} connects parallelism"
                f" {source.parallelism} and {target.parallelism}; use another partitioning, such as rebalance,"
                " rescale, shuffle, broadcast or global"
            )
        if (edge.ship_strategy is job_graph.ShipStrategy.HASH) != (edge.key_by is not None):
            raise GraphError(
                f"the edge {arrow} is {edge.ship_strategy}: HASH edges need keys, and other edges have none"
            )
        self._inputs[edge.target_uid].append(edge)
        self._outputs[edge.source_uid].append(edge)

    @property
    def nodes(self) -> tuple[StreamNode, ...]:
        return tuple(self._nodes.values())

    def node(self, uid: str) -> StreamNode:
        return self._nodes[uid]

    def inputs(self, uid: str) -> tuple[StreamEdge, ...]:
        return tuple(self._inputs[uid])

    def outputs(self, uid: str) -> tuple[StreamEdge, ...]:
        return tuple(self._outputs[uid])

    def topological(self) -> tuple[StreamNode, ...]:
        """Return every operator after all of its inputs. Raises `GraphError` for a cycle and for a missing input."""
        for node in self._nodes.values():
            if node.kind is not job_graph.OperatorKind.SOURCE and not self._inputs[node.uid]:
                raise GraphError(f"the operator {node.uid!r} is not a source and has no input")
        missing = {uid: len(edges) for uid, edges in self._inputs.items()}
        ready = deque(uid for uid, count in missing.items() if count == 0)
        order: list[StreamNode] = []
        while ready:
            uid = ready.popleft()
            order.append(self._nodes[uid])
            for edge in self._outputs[uid]:
                missing[edge.target_uid] -= 1
                if missing[edge.target_uid] == 0:
                    ready.append(edge.target_uid)
        if len(order) < len(self._nodes):
            cyclic = sorted(uid for uid, count in missing.items() if count > 0)
            raise GraphError(f"the dataflow is cyclic: no order exists for {', '.join(cyclic)}")
        return tuple(order)

    def downstream(self, uid: str) -> Iterator[StreamNode]:
        """Yield every operator that rows of this operator can reach, each once, without the operator itself."""
        visited: set[str] = set()
        ahead = deque(edge.target_uid for edge in self._outputs[uid])
        while ahead:
            uid_ahead = ahead.popleft()
            if uid_ahead not in visited:
                visited.add(uid_ahead)
                yield self._nodes[uid_ahead]
                ahead.extend(edge.target_uid for edge in self._outputs[uid_ahead])
