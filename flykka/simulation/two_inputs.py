"""Operators with two inputs in the jobs of a simulation: joins, and functions that distinguish their inputs.

They replace operators that read several outputs. The number of pairs is limited, so that runs stay short.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from flykka.actors.machines.joins.interval_segments import Interval
from flykka.messages.graph.job_graph import (
    FiringMode,
    JobVertex,
    OperatorKind,
    ShipStrategy,
    WatermarkAlignment,
)
from flykka.simulation.operators import Behaviour, Join, Process, Program, Tag
from flykka.simulation.topology import KINDS, Topology, operator_of
from flykka.spark_bridge.operators.join import Side

_JOIN_SHARE, _TWO_INPUTS_SHARE, _REGULAR_SHARE = 0.5, 0.7, 0.35
_LOWER_MS, _UPPER_MS = (-300, -40, -5, 0, 5), (0, 5, 40, 300)
_OUTER: tuple[tuple[Side, ...], ...] = ((), (), (Side.LEFT,), (Side.RIGHT,), (Side.LEFT, Side.RIGHT))
_ALIGNED_SHARE = 0.3
_MAX_ROWS = 1_000
_KEYED_KINDS = (OperatorKind.WINDOW_AGGREGATE, OperatorKind.KEYED_PROCESS)


def with_joins(topology: Topology, chance: Random) -> Topology:
    for place, vertex in enumerate(topology.vertices):
        if len(vertex.inputs) > 1 and chance.random() < _JOIN_SHARE:
            joined = _settled(_joining(topology, place, _join(len(vertex.inputs), chance)))
            if sum(rows.total() for rows in joined.expected_output().values()) <= _MAX_ROWS:
                topology = joined
    return topology


def with_alignment(topology: Topology, chance: Random) -> Topology:
    if chance.random() >= _ALIGNED_SHARE:
        return topology
    drift_ms, interval_ms = chance.choice((0, 5, 40, 300)), chance.choice((10, 100, 1_000))
    alignment = WatermarkAlignment(group="sources", max_drift_ms=drift_ms, update_interval_ms=interval_ms)
    vertices = tuple(
        replace(vertex, watermark_alignment=alignment) if vertex.watermark_delay_ms is not None else vertex
        for vertex in topology.vertices
    )
    return replace(topology, vertices=vertices)


def joins_by_time(topology: Topology) -> bool:
    """Return whether rows may miss their match because event time advances without them, or ends before the job."""
    return any(isinstance(each, Join) and each.bounds is not None for each in topology.program.behaviours.values())


def _join(inputs: int, chance: Random) -> Join:
    left_inputs, is_regular = chance.randint(1, inputs - 1), chance.random() < _REGULAR_SHARE
    bounds, outer = _interval(chance), chance.choice(_OUTER)
    return Join(left_inputs=left_inputs) if is_regular else Join(left_inputs=left_inputs, bounds=bounds, outer=outer)


def _interval(chance: Random) -> Interval:
    while True:
        interval = Interval(
            lower_ms=chance.choice(_LOWER_MS),
            upper_ms=chance.choice(_UPPER_MS),
            is_lower_inclusive=chance.random() < 0.5,
            is_upper_inclusive=chance.random() < 0.5,
        )
        if not interval.is_empty:
            return interval


def _joining(topology: Topology, place: int, behaviour: Join) -> Topology:
    """Return the job with a join at the head of a vertex, in place of a keyed head or before all operators."""
    vertex = topology.vertices[place]
    uid = f"{vertex.vertex_id}-join"
    kind = OperatorKind.REGULAR_JOIN if behaviour.bounds is None else KINDS[Join]
    join = operator_of(uid, kind)
    head, *rest = vertex.operators
    behaviours = {**topology.program.behaviours, uid: behaviour}
    if head.kind in _KEYED_KINDS:
        del behaviours[head.ref.uid]
        operators = (join, *rest)
        outputs = tuple(join.operator_id if name == head.operator_id else name for name in vertex.outputs)
        name = f"join{vertex.name.removeprefix('window').removeprefix('process')}"
    else:
        shifted = (replace(each, input_operator=_shifted(each.input_operator)) for each in vertex.operators)
        operators, outputs, name = (join, *shifted), vertex.outputs, f"join-{vertex.name}"
    inputs = tuple(replace(edge, ship_strategy=ShipStrategy.HASH) for edge in vertex.inputs)
    changed = replace(vertex, name=name, operators=operators, outputs=outputs, inputs=inputs)
    vertices = (*topology.vertices[:place], changed, *topology.vertices[place + 1 :])
    return Topology(vertices=vertices, program=Program(behaviours=behaviours))


def _shifted(place: int | None) -> int:
    return 0 if place is None else place + 1


def _settled(topology: Topology) -> Topology:
    """Change the settings of the job so that time-bounded joins miss no rows.

    Every source then affects event time, and no window waits for a checkpoint.
    """
    vertices = topology.vertices
    is_by_time = joins_by_time(topology)
    if is_by_time:
        vertices = tuple(replace(vertex, idle_timeout_ms=None) for vertex in vertices)
    if is_by_time or not any(vertex.operators[0].kind is OperatorKind.WINDOW_AGGREGATE for vertex in vertices):
        vertices = tuple(replace(vertex, firing_mode=FiringMode.ON_WATERMARK) for vertex in vertices)
    return replace(topology, vertices=vertices)


def with_two_inputs(topology: Topology, chance: Random) -> Topology:
    behaviours = dict(topology.program.behaviours)
    vertices = {vertex.vertex_id: vertex for vertex in topology.vertices}
    for vertex in topology.vertices:
        uid = vertex.operators[0].ref.uid
        head = behaviours[uid]
        if isinstance(head, Process) and len(vertex.inputs) > 1 and chance.random() < _TWO_INPUTS_SHARE:
            behaviours[uid] = replace(head, has_two_inputs=True)
            for place, edge in enumerate(vertex.inputs):
                vertices[edge.source] = _tagged(vertices[edge.source], edge.source_output, min(place, 1), behaviours)
    return Topology(vertices=tuple(vertices.values()), program=Program(behaviours=behaviours))


def _tagged(vertex: JobVertex, output: int, number: int, behaviours: dict[str, Behaviour]) -> JobVertex:
    """Return the vertex with a tag on the rows of an output. One edge reads this output."""
    uid = f"{vertex.vertex_id}-tag-{output}"
    behaviours[uid] = Tag(number=number)
    reads = [each.operator_id for each in vertex.operators].index(vertex.outputs[output])
    tag = operator_of(uid, KINDS[Tag], reads)
    outputs = (*vertex.outputs[:output], tag.operator_id, *vertex.outputs[output + 1 :])
    return replace(vertex, operators=(*vertex.operators, tag), outputs=outputs)
