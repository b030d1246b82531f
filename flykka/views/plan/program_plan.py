"""The plan of a program, for drawing: operators, vertices, and tasks in their slots.

The plan is built from the graphs that `execute` would submit, by the state machines that would run them, so it shows
what would happen. It consists of values, so that it can be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flykka.actors.machines.graph.deployment_descriptors import slot_request
from flykka.actors.machines.graph.execution_job_vertex import execution_job_vertices
from flykka.actors.machines.job_graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from flykka.actors.machines.job_graph.wiring import POINTWISE, channels
from flykka.actors.machines.slots.execution_slot_allocator import ExecutionSlotAllocator
from flykka.actors.machines.slots.resource_profile import UNSPECIFIED, resources_text
from flykka.actors.machines.slots.slot_requests import RequestSlots
from flykka.messages.graph.job_graph import (
    JobEdge,
    JobGraph,
    JobVertex,
    OperatorKind,
    ResourceSpec,
    ResultPartitionType,
)
from flykka.messages.wire.ids import JobVertexId, OperatorId
from flykka.messages.wire.message import Value, value
from flykka.messages.wire.ref import Ref
from flykka.views.text.formats import counted

_SHOWN = 8
"""The maximum number of subtasks whose inputs are listed."""


@value("plan.node")
class ProgramNode(Value):
    """A box: its operators, its parallelism, and further facts."""

    key: str
    kind: OperatorKind
    names: tuple[str, ...]
    parallelism: int
    facts: tuple[str, ...] = ()


@value("plan.edge")
class PlanEdge(Value):
    """An arrow between two boxes, and its ship strategy."""

    source: str
    target: str
    label: str


@value("plan.graph")
class PlanGraph(Value):
    """The nodes are in topological order."""

    title: str
    summary: str
    nodes: tuple[ProgramNode, ...]
    edges: tuple[PlanEdge, ...]


@value("plan.slot")
class PlanSlot(Value):
    """A slot: the tasks that share it, and their required resources as text."""

    group: str
    number: int
    tasks: tuple[str, ...]
    resources: str = ""


@value("plan.wiring")
class Wiring(Value):
    """The wiring of an edge: the subtasks of the source that each subtask of the target reads."""

    source: str
    target: str
    label: str
    reads: tuple[tuple[int, ...], ...]
    """For each subtask of the target, the subtasks that it reads. Empty if each subtask reads all."""

    def reads_text(self) -> str:
        """Describe which subtasks are read: `each reads all`, `1 reads 1-3, 2 reads 4-6`."""
        if not self.reads:
            return "each subtask reads all"
        if all(producers == (consumer,) for consumer, producers in enumerate(self.reads)):
            return "each subtask reads the subtask with the same number"
        reads = [f"{consumer} reads {_span(producers)}" for consumer, producers in enumerate(self.reads[:_SHOWN], 1)]
        return ", ".join(reads) + (", ..." if len(self.reads) > _SHOWN else "")


@value("plan.program_plan")
class ProgramPlan(Value):
    """The stream graph, the job graph and the slots of a program, as `flykka plan` draws them."""

    name: str
    stream: PlanGraph
    job: PlanGraph
    slots: tuple[PlanSlot, ...]
    wiring: tuple[Wiring, ...]
    tasks: int
    budget: str = ""

    @property
    def execution_summary(self) -> str:
        tasks = f"{counted(self.tasks, 'task')} in {counted(len(self.slots), 'slot')}"
        return f"{tasks}; each TaskManager has {self.budget}" if self.budget else tasks

    def sections(self, graphs: Iterable[str]) -> Iterator[tuple[str, str, PlanGraph | None]]:
        """Yield title, summary and graph of each part. The execution graph is None, because it is drawn as slots."""
        for name in graphs:
            if name == "execution":
                yield "Execution graph", self.execution_summary, None
            else:
                graph = self.stream if name == "stream" else self.job
                yield graph.title, graph.summary, graph


def program_plan(stream_graph: StreamGraph, job_graph: JobGraph, budget: str = "") -> ProgramPlan:
    """Create the plan of a program from its graphs. `budget` describes the resources of a TaskManager."""
    return ProgramPlan(
        name=job_graph.name,
        stream=_stream(stream_graph, job_graph),
        job=_job(job_graph),
        slots=_slots(job_graph),
        wiring=tuple(
            _wiring(_vertices(job_graph)[edge.source], vertex, edge)
            for vertex in job_graph.vertices
            for edge in vertex.inputs
        ),
        tasks=sum(vertex.parallelism for vertex in job_graph.vertices),
        budget=budget,
    )


def _stream(graph: StreamGraph, job_graph: JobGraph) -> PlanGraph:
    order = graph.topological()
    ids = {operator.ref.uid: operator.operator_id for vertex in job_graph.vertices for operator in vertex.operators}
    edges = [edge for node in order for edge in graph.inputs(node.uid)]
    return PlanGraph(
        title="Stream graph",
        summary=counted(len(order), "operator"),
        nodes=tuple(_operator(node, ids[node.ref.uid]) for node in order),
        edges=tuple(_stream_edge(edge) for edge in edges),
    )


def _operator(node: StreamNode, operator_id: OperatorId) -> ProgramNode:
    settings = (
        f"upserts by {', '.join(node.upsert_keys)}" if node.upsert_keys else "",
        f"max parallelism {node.max_parallelism}" if node.max_parallelism is not None else "",
        f"slot sharing group {node.slot_sharing_group}" if node.slot_sharing_group is not None else "",
        f"co-location group {node.co_location_group}" if node.co_location_group is not None else "",
        f"chaining {node.chaining.lower()}" if node.chaining != "ALWAYS" else "",
        _asked(node.resources),
    )
    # The id is shown because an operator that gets a uid later finds its state by this id.
    uid = ("no uid", f"id {operator_id}") if node.has_automatic_uid else (f"uid {node.uid}",)
    return ProgramNode(
        key=node.uid,
        kind=node.kind,
        names=(node.name,),
        parallelism=node.parallelism,
        facts=tuple(filter(None, (f"parallelism {node.parallelism}", *uid, *settings))),
    )


def _stream_edge(edge: StreamEdge) -> PlanEdge:
    return PlanEdge(source=edge.source_uid, target=edge.target_uid, label=edge.ship_strategy.lower())


def _job(job_graph: JobGraph) -> PlanGraph:
    vertices = f"{len(job_graph.vertices):,} {'vertex' if len(job_graph.vertices) == 1 else 'vertices'}"
    return PlanGraph(
        title="Job graph",
        summary=f"{vertices}: operators in one box run as one task;"
        " up to: the maximum parallelism, its number of key groups",
        nodes=tuple(_vertex(vertex) for vertex in job_graph.vertices),
        edges=tuple(
            PlanEdge(source=edge.source, target=vertex.vertex_id, label=_exchanged(edge))
            for vertex in job_graph.vertices
            for edge in vertex.inputs
        ),
    )


_MARKS = {ResultPartitionType.BLOCKING: "blocking ", ResultPartitionType.PIPELINED_APPROXIMATE: "approximate "}


def _exchanged(edge: JobEdge) -> str:
    """Format the ship strategy, and whether the exchange is blocking or may lose rows in a failure."""
    return f"{_MARKS.get(edge.result_partition_type, '')}{edge.ship_strategy.lower()}"


def _vertex(vertex: JobVertex) -> ProgramNode:
    facts = [f"parallelism {vertex.parallelism} (up to {vertex.max_parallelism})", f"group {vertex.slot_sharing_group}"]
    if vertex.co_location_group is not None:
        facts.append(f"co-location group {vertex.co_location_group}")
    if vertex.resources != UNSPECIFIED:
        facts.append(_asked(vertex.resources))
    return ProgramNode(
        key=vertex.vertex_id,
        kind=vertex.operators[-1].kind if vertex.inputs else vertex.operators[0].kind,
        names=tuple(operator.name for operator in vertex.operators),
        parallelism=vertex.parallelism,
        facts=(*facts, f"id {vertex.vertex_id}"),
    )


def _asked(resources: ResourceSpec) -> str:
    return "" if resources == UNSPECIFIED else resources_text(resources)


def _slots(job_graph: JobGraph) -> tuple[PlanSlot, ...]:
    """Place the first attempts in slots, as if all of them requested slots at once."""
    vertices = execution_job_vertices(job_graph, 0)
    subtasks = [subtask for vertex in vertices.values() for subtask in vertex.subtasks]
    requests = tuple(slot_request(vertices, subtask) for subtask in subtasks)
    allocator = ExecutionSlotAllocator("plan", job_graph.job_id, Ref("/plan", 0))
    allocator.handle(RequestSlots(requests=requests), 0)
    names = {
        subtask.execution.attempt: f"{subtask.job_vertex.operators[0].name}"
        f" ({subtask.subtask + 1}/{subtask.job_vertex.parallelism})"
        for subtask in subtasks
    }
    return tuple(
        PlanSlot(
            group=group,
            number=number,
            tasks=tuple(names[attempt] for attempt in shared.members),
            resources=_asked(shared.required),
        )
        for group in sorted({request.slot_sharing_group for request in requests})
        for number, shared in enumerate(allocator.sharing.slots_of(group), 1)
    )


def _wiring(source: JobVertex, target: JobVertex, edge: JobEdge) -> Wiring:
    reads: tuple[tuple[int, ...], ...] = ()
    if edge.ship_strategy in POINTWISE:
        reads = tuple(
            tuple(
                channel.producer
                for channel in channels(edge.ship_strategy, source.parallelism, target.parallelism, consumer)
            )
            for consumer in range(target.parallelism)
        )
    return Wiring(
        source=source.operators[0].name,
        target=target.operators[0].name,
        label=edge.ship_strategy.lower(),
        reads=reads,
    )


def _vertices(job_graph: JobGraph) -> dict[JobVertexId, JobVertex]:
    return {vertex.vertex_id: vertex for vertex in job_graph.vertices}


def _span(producers: tuple[int, ...]) -> str:
    first, last = producers[0] + 1, producers[-1] + 1
    return str(first) if first == last else f"{first}-{last}"
