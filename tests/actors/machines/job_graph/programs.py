"""Programs for tests, written as arrows: `"a > b, a > c"`."""

from __future__ import annotations

from flykka.actors.machines.job_graph.stream_graph import ChainingStrategy, StreamEdge, StreamGraph, StreamNode
from flykka.messages.graph.job_graph import JobType, OperatorKind, OperatorRef, ScheduleMode, ShipStrategy


def node(
    uid: str,
    kind: OperatorKind = OperatorKind.STATELESS,
    *,
    parallelism: int = 1,
    max_parallelism: int | None = None,
    group: str | None = None,
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS,
    publishes_per_checkpoint: bool = False,
    event_time: bool = False,
    watermark_delay_ms: int | None = None,
    automatic: bool = False,
    co_location: str | None = None,
) -> StreamNode:
    return StreamNode(
        uid=uid,
        name=uid,
        kind=kind,
        ref=OperatorRef(uid=uid, fingerprint="f"),
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        slot_sharing_group=group,
        chaining=chaining,
        publishes_per_checkpoint=publishes_per_checkpoint,
        event_time=event_time,
        watermark_delay_ms=watermark_delay_ms,
        has_automatic_uid=automatic,
        co_location_group=co_location,
    )


def edge(
    source: str,
    target: str,
    ship_strategy: ShipStrategy = ShipStrategy.FORWARD,
    key_by: OperatorRef | None = None,
) -> StreamEdge:
    return StreamEdge(source_uid=source, target_uid=target, ship_strategy=ship_strategy, key_by=key_by)


def keyed_edge(source: str, target: str) -> StreamEdge:
    return edge(source, target, ShipStrategy.HASH, OperatorRef(uid=f"{source}-keys", fingerprint=""))


def program(
    arrows: str,
    *given: StreamNode,
    sinks: str = "",
    keys: str = "",
    chaining: bool = True,
    job_type: JobType = JobType.STREAMING,
) -> StreamGraph:
    """Return the program that these arrows describe. `given` replaces plain operators; `keys` names the targets of
    keyed edges.

    Operators without an incoming arrow are sources.
    """
    pairs = [tuple(arrow.strip().split(" > ")) for arrow in arrows.split(",")]
    own = {each.uid: each for each in given}
    targets = {target for _, target in pairs}
    mode = ScheduleMode.PIPELINED_REGION if job_type is JobType.BATCH else ScheduleMode.EAGER
    graph = StreamGraph(chaining_enabled=chaining, schedule_mode=mode, job_type=job_type)
    for uid in dict.fromkeys(uid for pair in pairs for uid in pair):
        kind = OperatorKind.SINK if uid in sinks.split() else OperatorKind.STATELESS
        graph.add_node(own.get(uid, node(uid, kind if uid in targets else OperatorKind.SOURCE)))
    for source, target in pairs:
        graph.add_edge(keyed_edge(source, target) if target in keys.split() else edge(source, target))
    return graph
