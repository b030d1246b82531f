"""Smaller jobs that resemble a given one: a vertex less, an operator less, fewer rows, one subtask instead of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from flykka.messages.graph.job_graph import FiringMode, JobEdge, JobVertex, Operator, ShipStrategy
from flykka.messages.wire.ids import JobVertexId, OperatorId
from flykka.simulation.operators import Behaviour, Filter, Join, Map, Program, Sink, Source
from flykka.simulation.topology import Topology


def smaller_topologies(topology: Topology) -> Iterator[Topology]:
    """Each of them is a job that can run, with one thing less; the coarsest first."""
    yield from _without_a_vertex(topology)
    yield from _without_an_operator(topology)
    yield from _narrower(topology)
    yield from _with_fewer_rows(topology)
    yield from _plainer(topology)


def _without_a_vertex(topology: Topology) -> Iterator[Topology]:
    for gone in reversed(topology.vertices):
        smaller = _trimmed(topology, {gone.vertex_id})
        if smaller is not None:
            yield smaller
    for gone in topology.vertices:
        readers = [edge for vertex in topology.vertices for edge in vertex.inputs if edge.source == gone.vertex_id]
        is_sink = any(isinstance(topology.program[operator.ref.uid], Sink) for operator in gone.operators)
        if gone.inputs and len(readers) == 1 and not is_sink:
            instead = {edge: len(gone.inputs) for edge in readers}
            yield _with_program(
                _joining(topology, lambda edge, instead=instead: instead.get(edge, 1)),  # type: ignore[misc]
                tuple(_past(gone, vertex) for vertex in topology.vertices if vertex is not gone),
            )


def _joining(topology: Topology, count: Callable[[JobEdge], int]) -> Topology:
    """The job whose joins know their left inputs, where there are `count` edges in the place of each."""
    behaviours = dict(topology.program.behaviours)
    for vertex in topology.vertices:
        uid = vertex.operators[0].ref.uid
        head = behaviours[uid]
        if isinstance(head, Join):
            left_inputs = sum(map(count, vertex.inputs[: head.left_inputs]))
            behaviours[uid] = replace(head, left_inputs=left_inputs)
    return replace(topology, program=Program(behaviours=behaviours))


def _past(gone: JobVertex, vertex: JobVertex) -> JobVertex:
    """A vertex that reads what another one has read, where it has read that one."""
    inputs: list[JobEdge] = []
    for edge in vertex.inputs:
        if edge.source == gone.vertex_id:
            # Neighbours may be of different widths now.
            strategy = ShipStrategy.REBALANCE if edge.ship_strategy is ShipStrategy.FORWARD else edge.ship_strategy
            inputs += (replace(former, ship_strategy=strategy) for former in gone.inputs)
        else:
            inputs.append(edge)
    return replace(vertex, inputs=tuple(inputs))


def _trimmed(topology: Topology, gone: set[JobVertexId]) -> Topology | None:
    """Without these vertices, and without what reads nothing or is read by nobody then; None where nothing is left."""
    vertices = topology.vertices
    while True:
        vertices = tuple(
            replace(vertex, inputs=tuple(edge for edge in vertex.inputs if edge.source not in gone))
            for vertex in vertices
            if vertex.vertex_id not in gone
        )
        read = {(edge.source, edge.source_output) for vertex in vertices for edge in vertex.inputs}
        gone = {vertex.vertex_id for vertex in vertices if not _is_of_use(vertex, topology.program, read)}
        if not gone:
            break
    if not vertices:
        return None
    left = {vertex.vertex_id for vertex in vertices}
    return _with_program(_joining(topology, lambda edge: edge.source in left), _renumbered(vertices, read))


def _is_of_use(vertex: JobVertex, program: Program, read: set[tuple[JobVertexId, int]]) -> bool:
    behaviours = [program[operator.ref.uid] for operator in vertex.operators]
    reads = bool(vertex.inputs) or isinstance(behaviours[0], Source)
    is_read = any((vertex.vertex_id, number) in read for number in range(len(vertex.outputs)))
    return reads and (is_read or any(isinstance(behaviour, Sink) for behaviour in behaviours))


def _renumbered(vertices: tuple[JobVertex, ...], read: set[tuple[JobVertexId, int]]) -> tuple[JobVertex, ...]:
    """Without outputs that nobody reads: those behind them have lower numbers then."""
    numbers: dict[tuple[JobVertexId, int], int] = {}
    for vertex in vertices:
        kept = [number for number in range(len(vertex.outputs)) if (vertex.vertex_id, number) in read]
        numbers.update({(vertex.vertex_id, number): place for place, number in enumerate(kept)})

    def edge(old: JobEdge) -> JobEdge:
        return replace(old, source_output=numbers[old.source, old.source_output])

    return tuple(
        replace(
            vertex,
            inputs=tuple(map(edge, vertex.inputs)),
            outputs=tuple(name for number, name in enumerate(vertex.outputs) if (vertex.vertex_id, number) in numbers),
        )
        for vertex in vertices
    )


def _without_an_operator(topology: Topology) -> Iterator[Topology]:
    for vertex in topology.vertices:
        for place, operator in enumerate(vertex.operators):
            if place and isinstance(topology.program[operator.ref.uid], Map | Filter):
                yield _with_program(topology, _with_vertex(topology, _bypassed(vertex, place)))


def _bypassed(vertex: JobVertex, place: int) -> JobVertex:
    """Remove the operator at `place`: its readers read its input."""
    gone = vertex.operators[place]
    before = gone.input_operator
    assert before is not None, "the first operator of a chain is not taken away"

    def moved(operator: Operator) -> Operator:
        reads = before if operator.input_operator == place else operator.input_operator
        return replace(operator, input_operator=reads - 1 if reads is not None and reads > place else reads)

    kept = (*vertex.operators[:place], *vertex.operators[place + 1 :])
    instead: dict[OperatorId, OperatorId] = {gone.operator_id: vertex.operators[before].operator_id}
    outputs = tuple(instead.get(name, name) for name in vertex.outputs)
    return replace(vertex, operators=tuple(map(moved, kept)), outputs=outputs)


def _narrower(topology: Topology) -> Iterator[Topology]:
    if topology.parallelism > 1:
        yield topology.rescaled(lambda _: 1)
    widths = sorted({vertex.parallelism for vertex in topology.vertices} - {1})
    for width in widths:
        # All vertices of one width together: those that are joined by forward edges stay so.
        yield topology.rescaled(lambda n, width=width: n - 1 if n == width else n)  # type: ignore[misc]


def _with_fewer_rows(topology: Topology) -> Iterator[Topology]:
    for uid, behaviour in topology.program.behaviours.items():
        if isinstance(behaviour, Source) and behaviour.rows > 1:
            for rows in dict.fromkeys((1, behaviour.rows // 2, behaviour.rows - 1)):
                yield _behaving(topology, uid, replace(behaviour, rows=rows))


def _plainer(topology: Topology) -> Iterator[Topology]:
    for uid, behaviour in topology.program.behaviours.items():
        if isinstance(behaviour, Source):
            plain = {"keys": 1, "disorder_ms": 0, "rows_per_split": 1, "splits_per_look": 100, "step_ms": 1}
            for field, value in plain.items():
                if getattr(behaviour, field) != value:
                    yield _behaving(topology, uid, replace(behaviour, **{field: value}))
        if isinstance(behaviour, Join) and behaviour.outer:
            yield _behaving(topology, uid, replace(behaviour, outer=()))
    for vertex in topology.vertices:
        if vertex.watermark_alignment is not None:
            yield replace(topology, vertices=_with_vertex(topology, replace(vertex, watermark_alignment=None)))
        if vertex.firing_mode is not FiringMode.ON_WATERMARK:
            yield replace(
                topology, vertices=_with_vertex(topology, replace(vertex, firing_mode=FiringMode.ON_WATERMARK))
            )
        for place, edge in enumerate(vertex.inputs):
            if edge.ship_strategy not in (ShipStrategy.HASH, ShipStrategy.REBALANCE):
                plainer = replace(edge, ship_strategy=ShipStrategy.REBALANCE)
                inputs = (*vertex.inputs[:place], plainer, *vertex.inputs[place + 1 :])
                yield replace(topology, vertices=_with_vertex(topology, replace(vertex, inputs=inputs)))


def _behaving(topology: Topology, uid: str, behaviour: Behaviour) -> Topology:
    behaviours = {**topology.program.behaviours, uid: behaviour}
    return replace(topology, program=Program(behaviours=behaviours))


def _with_vertex(topology: Topology, changed: JobVertex) -> tuple[JobVertex, ...]:
    return tuple(changed if each.vertex_id == changed.vertex_id else each for each in topology.vertices)


def _with_program(topology: Topology, vertices: tuple[JobVertex, ...]) -> Topology:
    uids = {operator.ref.uid for vertex in vertices for operator in vertex.operators}
    behaviours = {uid: each for uid, each in topology.program.behaviours.items() if uid in uids}
    return Topology(vertices=vertices, program=Program(behaviours=behaviours))
