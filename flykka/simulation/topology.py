"""The randomly drawn jobs of a simulation: one to three sources, forks and unions, windows, functions, and sinks.

A function has one or two inputs, and there are one to three sinks. A vertex is a chain of one to three operators. The
`Program` contains their behaviour. The job graph only contains names, like every job graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from flykka.actors.machines.windows.event_time_windows import EventTimeWindows
from flykka.messages.graph.job_graph import (
    FiringMode,
    JobEdge,
    JobVertex,
    Operator,
    OperatorKind,
    OperatorRef,
    ResultPartitionType,
    ShipStrategy,
)
from flykka.messages.wire.ids import JobVertexId, OperatorId
from flykka.simulation.operators import (
    Behaviour,
    Filter,
    Join,
    Map,
    Process,
    Program,
    Sink,
    Source,
    Tag,
    Window,
)
from flykka.simulation.rows import Rows

_UNKEYED = (
    ShipStrategy.REBALANCE,
    ShipStrategy.REBALANCE,
    ShipStrategy.HASH,
    ShipStrategy.RESCALE,
    ShipStrategy.SHUFFLE,
    ShipStrategy.GLOBAL,
)
KINDS = {
    Source: OperatorKind.SOURCE,
    Map: OperatorKind.STATELESS,
    Filter: OperatorKind.STATELESS,
    Window: OperatorKind.WINDOW_AGGREGATE,
    Process: OperatorKind.KEYED_PROCESS,
    Join: OperatorKind.JOIN,
    Tag: OperatorKind.LOCAL_INPUT,
    Sink: OperatorKind.SINK,
}
MAX_SINKS = 3
_FUNCTION_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    vertices: tuple[JobVertex, ...]
    program: Program

    @property
    def parallelism(self) -> int:
        """The number of slots needed: the largest parallelism of a vertex."""
        return max(vertex.parallelism for vertex in self.vertices)

    def rescaled(self, parallelism: Callable[[int], int]) -> Topology:
        """Return the job with each parallelism n replaced by `parallelism(n)`, so that forward edges stay possible."""
        vertices = tuple(replace(each, parallelism=parallelism(each.parallelism)) for each in self.vertices)
        return replace(self, vertices=vertices)

    def as_approximate(self) -> Topology:
        """Return the job with approximate local recovery, in which a failure loses rows."""
        kind = ResultPartitionType.PIPELINED_APPROXIMATE
        return replace(
            self,
            vertices=tuple(
                replace(vertex, inputs=tuple(replace(edge, result_partition_type=kind) for edge in vertex.inputs))
                for vertex in self.vertices
            ),
        )

    def as_batch(self) -> Topology:
        vertices: list[JobVertex] = []
        for vertex in self.vertices:
            inputs = tuple(replace(edge, result_partition_type=ResultPartitionType.BLOCKING) for edge in vertex.inputs)
            batch = replace(vertex, inputs=inputs, firing_mode=FiringMode.ON_WATERMARK)
            vertices += _separate_sinks(batch) if vertex.outputs else (batch,)
        return replace(self, vertices=tuple(vertices))

    def expected_output(self) -> Mapping[str, Counter[tuple[int, int]]]:
        """Return the rows that each sink should publish: source rows with values, once for each path to the sink."""
        arriving: dict[tuple[JobVertexId, int], Rows] = {}
        expected_output: dict[str, Counter[tuple[int, int]]] = {name: Counter() for name in self.program.sinks}
        for vertex in self.vertices:
            read = [arriving[edge.source, edge.source_output] for edge in vertex.inputs]
            results: dict[OperatorId, Rows] = {}
            for operator in vertex.operators:
                reads = operator.input_operator
                inputs = read if reads is None else [results[vertex.operators[reads].operator_id]]
                behaviour = self.program[operator.ref.uid]
                results[operator.operator_id] = _result(behaviour, inputs)
                if isinstance(behaviour, Sink):
                    expected_output[behaviour.name].update(part for row in _together(inputs) for part in row.parts)
            for number, operator_id in enumerate(vertex.outputs):
                arriving[vertex.vertex_id, number] = results[operator_id]
        return expected_output

    def __str__(self) -> str:
        return ", ".join(f"{vertex.name} x{vertex.parallelism}" for vertex in self.vertices)


def _separate_sinks(vertex: JobVertex) -> tuple[JobVertex, ...]:
    """Return the vertex with outputs for its sinks, which become separate vertices."""
    sinks = [operator for operator in vertex.operators if operator.kind is OperatorKind.SINK]
    outputs, separate = list(vertex.outputs), list[JobVertex]()
    for sink in sinks:
        assert sink.input_operator is not None, "a vertex with outputs begins with a sink"
        edge = JobEdge(
            source=vertex.vertex_id,
            source_output=len(outputs),
            ship_strategy=ShipStrategy.FORWARD,
            result_partition_type=ResultPartitionType.BLOCKING,
        )
        outputs.append(vertex.operators[sink.input_operator].operator_id)
        separate.append(
            JobVertex(
                vertex_id=JobVertexId(f"{vertex.vertex_id}-sink"),
                name="sink",
                operators=(replace(sink, input_operator=None),),
                parallelism=vertex.parallelism,
                max_parallelism=vertex.max_parallelism,
                inputs=(edge,),
            )
        )
    chained = tuple(operator for operator in vertex.operators if operator not in sinks)
    return (replace(vertex, operators=chained, outputs=tuple(outputs)), *separate)


def operator_of(uid: str, kind: OperatorKind, input_operator: int | None = None) -> Operator:
    ref = OperatorRef(uid=uid, fingerprint="")
    return Operator(operator_id=OperatorId(uid), ref=ref, name=uid, kind=kind, input_operator=input_operator)


def _together(inputs: Iterable[Rows]) -> Rows:
    return tuple(row for rows in inputs for row in rows)


def _result(behaviour: Behaviour, inputs: Sequence[Rows]) -> Rows:
    rows = _together(inputs)
    match behaviour:
        case Source(rows=count):
            return behaviour.read(0, count)
        case Map() | Filter() | Tag():
            return behaviour.apply(rows)
        case Window():
            return behaviour.fired(rows)
        case Process():
            return behaviour.released(rows)
        case Join(left_inputs=left):
            return behaviour.results(_together(inputs[:left]), _together(inputs[left:]))
        case Sink():
            return ()


def draw_topology(chance: Random, *, max_parallelism: int = 4) -> Topology:
    """Draw a job. Its sources have few rows, because runs must be short."""
    return _Drawing(chance, max_parallelism).draw()


def with_functions(topology: Topology, chance: Random) -> Topology:
    behaviours = dict(topology.program.behaviours)
    vertices: list[JobVertex] = []
    for vertex in topology.vertices:
        head = vertex.operators[0]
        if head.kind is OperatorKind.WINDOW_AGGREGATE and chance.random() < _FUNCTION_SHARE:
            behaviours[head.ref.uid] = Process(
                delay_ms=chance.choice((0, 5, 40, 300)), in_processing_time=chance.random() < 0.5
            )
            name = vertex.name.replace("window", "process")
            head = replace(head, kind=OperatorKind.KEYED_PROCESS)
            vertex = replace(vertex, name=name, operators=(head, *vertex.operators[1:]))
        vertices.append(vertex)
    if not any(vertex.operators[0].kind is OperatorKind.WINDOW_AGGREGATE for vertex in vertices):
        vertices = [replace(vertex, firing_mode=FiringMode.ON_WATERMARK) for vertex in vertices]
    return Topology(vertices=tuple(vertices), program=Program(behaviours=behaviours))


class _Drawing:
    def __init__(self, chance: Random, max_parallelism: int) -> None:
        self._chance = chance
        self._parallelisms = [1, *(chance.randint(1, max_parallelism) for _ in range(2))]
        self._key_groups = chance.choice((8, 16, 128))
        self._behaviours: dict[str, Behaviour] = {}
        self._vertices: list[JobVertex] = []
        self._open: list[tuple[JobVertexId, int]] = []

    def draw(self) -> Topology:
        chance = self._chance
        for number in range(chance.choice((1, 1, 1, 2, 2, 3))):
            self._add_source(number)
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            self._add_vertex(self._outputs_to_read(chance.choice((1, 1, 2))))
        while self._open:
            # The last sink reads all remaining outputs.
            reads_rest = len(self._sinks()) + 1 >= MAX_SINKS
            count = len(self._open) if reads_rest else chance.randint(1, len(self._open))
            self._add_vertex(self._outputs_to_read(count), ends=True)
        firing = self._may_fire_late() and chance.random() < 0.5
        mode = FiringMode.ON_CHECKPOINT if firing else FiringMode.ON_WATERMARK
        vertices = tuple(replace(vertex, firing_mode=mode) for vertex in self._vertices)
        return Topology(vertices=vertices, program=Program(behaviours=self._behaviours))

    def _sinks(self) -> Sequence[str]:
        return Program(behaviours=self._behaviours).sinks

    def _outputs_to_read(self, count: int) -> list[tuple[JobVertexId, int]]:
        self._chance.shuffle(self._open)
        outputs, self._open = self._open[:count], self._open[count:]
        return outputs

    def _may_fire_late(self) -> bool:
        """Return whether windows may fire with checkpoints: the job must have exactly one window."""
        windowed = [each for each in self._vertices if each.operators[0].kind is OperatorKind.WINDOW_AGGREGATE]
        return len(windowed) == 1

    def _add_source(self, number: int) -> None:
        chance = self._chance
        source = Source(
            number=number,
            rows=chance.randint(4, 40),
            keys=chance.randint(1, 12),
            step_ms=chance.choice((1, 10, 10)),
            disorder_ms=chance.choice((0, 0, 5, 50)),
            rows_per_split=chance.choice((1, 1, 2, 4)),
            splits_per_look=chance.choice((1, 3, 100, 100)),
            interval_ms=chance.choice((50, 250, 1_000)),
        )
        idle_timeout_ms = chance.choice((None, None, 100))
        self._add(
            [source, *self._transformations()],
            (),
            watermark_delay_ms=source.disorder_ms,
            idle_timeout_ms=idle_timeout_ms,
        )

    def _add_vertex(self, reads: Sequence[tuple[JobVertexId, int]], *, ends: bool = False) -> None:
        if not reads:
            return
        behaviours: list[Behaviour] = []
        is_windowed = self._chance.random() < 0.4
        if is_windowed:
            size_ms = self._chance.choice((5, 40, 300))
            behaviours.append(Window(windows=EventTimeWindows(size_ms=size_ms, slide_ms=size_ms)))
        behaviours += self._transformations()
        may_end = ends or len(self._sinks()) + 1 < MAX_SINKS
        if ends or (may_end and self._chance.random() < 0.3):
            behaviours.append(Sink(name=f"sink-{len(self._sinks())}"))
        elif not behaviours:
            behaviours.append(Map(salt=1))
        self._add(behaviours, reads, is_windowed=is_windowed, ends=ends)

    def _transformations(self) -> list[Behaviour]:
        chance, behaviours = self._chance, list[Behaviour]()
        if chance.random() < 0.4:
            behaviours.append(Map(salt=chance.randint(1, 1_000)))
        if chance.random() < 0.3:
            behaviours.append(Filter(salt=chance.randint(1, 1_000), passing_percent=chance.choice((30, 70, 90))))
        return behaviours

    def _add(
        self,
        behaviours: Sequence[Behaviour],
        reads: Sequence[tuple[JobVertexId, int]],
        *,
        is_windowed: bool = False,
        ends: bool = False,
        watermark_delay_ms: int | None = None,
        idle_timeout_ms: int | None = None,
    ) -> None:
        name = f"vertex-{len(self._vertices)}"
        operators = self._operators(name, behaviours)
        rows_of = [operator.operator_id for operator in operators if operator.kind is not OperatorKind.SINK][-1:]
        outputs = () if ends else tuple(rows_of) * self._chance.choice((1, 1, 1, 2))
        parallelism = self._chance.choice(self._parallelisms)
        vertex = JobVertex(
            vertex_id=JobVertexId(name),
            name="-".join(type(behaviour).__name__.lower() for behaviour in behaviours),
            operators=operators,
            parallelism=parallelism,
            max_parallelism=self._key_groups,
            inputs=tuple(self._edge(read, parallelism, is_windowed=is_windowed) for read in reads),
            outputs=outputs,
            watermark_delay_ms=watermark_delay_ms,
            idle_timeout_ms=idle_timeout_ms,
        )
        self._vertices.append(vertex)
        self._open += [(vertex.vertex_id, number) for number in range(len(outputs))]

    def _operators(self, vertex: str, behaviours: Sequence[Behaviour]) -> tuple[Operator, ...]:
        operators: list[Operator] = []
        for place, behaviour in enumerate(behaviours):
            uid = f"{vertex}-{type(behaviour).__name__.lower()}"
            self._behaviours[uid] = behaviour
            operators.append(operator_of(uid, KINDS[type(behaviour)], place - 1 if place else None))
        return tuple(operators)

    def _edge(self, read: tuple[JobVertexId, int], parallelism: int, *, is_windowed: bool) -> JobEdge:
        source, output = read
        before = next(vertex.parallelism for vertex in self._vertices if vertex.vertex_id == source)
        strategy = ShipStrategy.HASH if is_windowed else self._chance.choice(_UNKEYED)
        if not is_windowed and before == parallelism and self._chance.random() < 0.3:
            strategy = ShipStrategy.FORWARD
        return JobEdge(source=source, source_output=output, ship_strategy=strategy)
