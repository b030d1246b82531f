"""Turns a program into its stream graph, and binds its code in the registry (Flink's StreamGraphGenerator).

Each operator of the program becomes one node, except aggregations and operators with two inputs, which become several
nodes. Local nodes are chained to the inputs: they compute partial aggregates, reduce rows to the columns that are
needed, or give both inputs the same columns. The node after the exchange has the state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flykka.actors.errors import GraphError
from flykka.actors.machines.job_graph.stream_graph import ExchangeMode, StreamEdge, StreamGraph, StreamNode
from flykka.api.runtime_mode import RuntimeExecutionMode, job_type
from flykka.api.streams.auto_parallelism import parallelism_of
from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import JobType, OperatorRef, ScheduleMode, ShipStrategy
from flykka.spark_bridge.operators.source import SourceCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from flykka.api.streams.transformation import Input, Transformation
    from flykka.spark_bridge.operators.code import KeyByCode, OperatorCode
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.program.call_site import CallSite


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    parallelism: int = 1
    max_parallelism: int | None = None
    chaining_enabled: bool = True
    coalesces_batches: bool = True
    mini_batch_latency_ms: int = 1_000
    approximate_local_recovery: bool = False
    auto_generated_uids: bool = True
    schedule_mode: ScheduleMode = ScheduleMode.EAGER
    runtime_mode: RuntimeExecutionMode = RuntimeExecutionMode.STREAMING

    def max_parallelism_of(self, own: int | None) -> int | None:
        """Return the maximum parallelism of an operator whose own setting is `own`; None if it must be derived."""
        return own or self.max_parallelism


def stream_graph(
    transformations: Sequence[Transformation], registry: CodeRegistry, defaults: Defaults, slots: int | None = None
) -> StreamGraph:
    """Return the stream graph of a program; `slots` is the number of slots of the cluster, if known.

    Raises:
        ProgramError: the program cannot be built, an operator lacks a required uid, a source of a batch job is
            unbounded, or an operator uses all slots and the number of slots is unknown; the error names the operator.
    """
    if not defaults.auto_generated_uids:
        _check_uids(transformations)
    has_variables = any(each.broadcast_variable for operator in transformations for each in operator.inputs)
    kind = job_type(defaults.runtime_mode, transformations)
    _check_side_outputs(transformations)
    parallelism = parallelism_of(transformations, defaults.parallelism, slots)
    generator = _Generator(
        registry, defaults, kind, parallelism, _ordered(transformations), has_broadcast_variables=has_variables
    )
    try:
        for transformation in transformations:
            generator.add(transformation)
    except GraphError as impossible:
        raise ProgramError(str(impossible)) from impossible
    return generator.graph


def _check_uids(transformations: Sequence[Transformation]) -> None:
    for operator in transformations:
        if operator.has_automatic_uid and operator.uid_hash is None:
            raise ProgramError(
                f"automatic uids are disabled, and the operator {operator.name!r} ({operator.call_site}) has no uid:"
                " give it one with uid(...), or a hash with set_uid_hash(...)"
            )


def _check_side_outputs(transformations: Sequence[Transformation]) -> None:
    """Raise `ProgramError` if a source's side output has no reader, because its rows must not be lost."""
    read = {
        (operator.inputs[0].source, tag)
        for operator in transformations
        if (tag := operator.code.reads_side_output) is not None
    }
    for operator in transformations:
        code = operator.code
        if isinstance(code, SourceCode) and code.side_outputs and (operator, code.side_outputs[0]) not in read:
            raise ProgramError(
                f"{operator} writes a side output that is not read: read it with"
                f" get_side_output(OutputTag({code.side_outputs[0]!r})) of its stream"
            )


def _shipped(source: Input, *, is_same_parallelism: bool) -> tuple[ShipStrategy, KeyByCode | None]:
    if source.ship_strategy is not None:
        return source.ship_strategy, source.key_by
    if is_same_parallelism:
        return ShipStrategy.FORWARD, None
    if source.changelog_keys is None:
        return ShipStrategy.REBALANCE, None
    return ShipStrategy.HASH, source.changelog_keys


def _ordered(transformations: Sequence[Transformation]) -> set[Transformation]:
    """Return the operators whose results must be in order, because a downstream operator needs the order.

    All other operators may read files and exchange rows in any order, which is faster.
    """
    ordered: set[Transformation] = set()
    for made in reversed(transformations):
        # Downstream operators come later in the sequence, so they have been visited already.
        if made.code.needs_order(readers_do=made in ordered):
            ordered.update(read.source for read in made.inputs)
    return ordered


class _Generator:
    def __init__(
        self,
        registry: CodeRegistry,
        defaults: Defaults,
        kind: JobType,
        parallelism: Mapping[Transformation, int],
        ordered: Set[Transformation],
        *,
        has_broadcast_variables: bool,
    ) -> None:
        schedule_mode = defaults.schedule_mode
        # The readers of a broadcast variable can only be deployed when it is complete.
        if (kind is JobType.BATCH or has_broadcast_variables) and schedule_mode is ScheduleMode.EAGER:
            schedule_mode = ScheduleMode.PIPELINED_REGION
        self.graph = StreamGraph(
            chaining_enabled=defaults.chaining_enabled,
            coalesces_batches=defaults.coalesces_batches,
            mini_batch_latency_ms=defaults.mini_batch_latency_ms,
            approximate_local_recovery=defaults.approximate_local_recovery,
            schedule_mode=schedule_mode,
            job_type=kind,
        )
        self._registry = registry
        self._defaults = defaults
        self._parallelism = parallelism
        self._ordered = ordered

    def add(self, transformation: Transformation) -> None:
        if transformation.code.reads_side_output is not None:
            self._add_side_output(transformation)
            return
        feeding = [self._feeding(transformation, place) for place in range(len(transformation.inputs))]
        parallelism = self._parallelism[transformation]
        self.graph.add_node(
            StreamNode(
                uid=transformation.uid,
                name=transformation.name,
                kind=transformation.kind,
                ref=self._bound(transformation, transformation.uid, transformation.code),
                parallelism=parallelism,
                max_parallelism=self._defaults.max_parallelism_of(transformation.max_parallelism),
                parallelism_limit=transformation.parallelism_limit,
                slot_sharing_group=transformation.slot_sharing_group,
                co_location_group=transformation.co_location_group_key,
                chaining=transformation.chaining,
                has_automatic_uid=transformation.has_automatic_uid,
                uid_hash=transformation.uid_hash,
                resources=transformation.resources,
                publishes_per_checkpoint=transformation.publishes_per_checkpoint,
                event_time=transformation.kind.uses_event_time,
                watermark_delay_ms=transformation.watermark_delay_ms,
                idle_timeout_ms=transformation.idle_timeout_ms,
                quiet_period_ms=transformation.quiet_period_ms,
                watermark_alignment=transformation.watermark_alignment,
                on_monotony_violation=transformation.on_monotony_violation,
                punctuated_watermarks=transformation.punctuated_watermarks,
                state_schema=transformation.code.state_schema,
                upsert_keys=transformation.code.upsert_keys,
                has_coordinator=transformation.code.has_coordinator,
            )
        )
        for uid, source in zip(feeding, transformation.inputs, strict=True):
            self._connect(uid, transformation, source, parallelism)

    def _add_side_output(self, transformation: Transformation) -> None:
        operator = self.graph.node(transformation.inputs[0].source.uid)
        self.graph.add_node(
            StreamNode(
                uid=transformation.uid,
                name=transformation.name,
                kind=transformation.kind,
                ref=self._bound(transformation, transformation.uid, transformation.code),
                # The reader of the side output gets the operator's parallelism and group, so that both run in one
                # task.
                parallelism=operator.parallelism,
                has_automatic_uid=transformation.has_automatic_uid,
            )
        )
        self.graph.add_edge(StreamEdge(source_uid=operator.uid, target_uid=transformation.uid, is_side_output=True))

    def _feeding(self, transformation: Transformation, place: int) -> str:
        """Return the uid of the node that feeds an input of the operator: its local node, if there is one."""
        read = transformation.inputs[place]
        feeding = read.source.uid
        if read.local_code is None:
            return feeding
        # Each stream of a union, and each of two inputs, has its own local node.
        local = f"{transformation.uid}-local" + (f"-{place + 1}" if len(transformation.inputs) > 1 else "")
        self.graph.add_node(
            StreamNode(
                uid=local,
                name=read.local_code.name_of(transformation.name),
                kind=read.local_code.local_kind,
                ref=self._bound(transformation, local, read.local_code),
                # The local node has the parallelism of its input and, because it sets no sharing group, the same
                # group, so that both run in one task.
                parallelism=self.graph.node(feeding).parallelism,
                has_automatic_uid=transformation.has_automatic_uid,
            )
        )
        self.graph.add_edge(StreamEdge(source_uid=feeding, target_uid=local))
        return local

    def _bound(self, transformation: Transformation, uid: str, code: OperatorCode) -> OperatorRef:
        """Bind the code to its uid; errors name the operator by the user's uid, else by its name."""
        name = transformation.name if transformation.has_automatic_uid else transformation.uid
        if isinstance(code, SourceCode) and transformation in self._ordered:
            code = replace(code, source=code.source.in_order())
        return self._registry.bind(uid, code, call_site=transformation.call_site, name=name)

    def _connect(self, feeding: str, transformation: Transformation, source: Input, parallelism: int) -> None:
        is_same_parallelism = self.graph.node(feeding).parallelism == parallelism
        strategy, key_by = _shipped(source, is_same_parallelism=is_same_parallelism)
        self.graph.add_edge(
            StreamEdge(
                source_uid=feeding,
                target_uid=transformation.uid,
                ship_strategy=strategy,
                key_by=None if key_by is None else self._keys(transformation, key_by, source.call_site),
                exchange_mode=ExchangeMode.BATCH if source.broadcast_variable else ExchangeMode.UNDEFINED,
                broadcast_variable=source.broadcast_variable,
            )
        )

    def _keys(self, transformation: Transformation, key_by: KeyByCode, site: CallSite) -> OperatorRef:
        """Bind the keys of an input, because the two sides of a join have different keys."""
        keys = (each.key_by or each.changelog_keys for each in transformation.inputs)
        kinds = list(dict.fromkeys(id(each) for each in keys if each is not None))
        number = kinds.index(id(key_by)) + 1
        uid = f"{transformation.uid}-keys" + (f"-{number}" if number > 1 else "")
        keeps_order = transformation.code.needs_order(readers_do=transformation in self._ordered)
        return self._registry.bind(uid, replace(key_by, keeps_order=keeps_order), call_site=site)
