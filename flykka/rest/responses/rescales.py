"""Rescales of a job, and its bounds of parallelism (Flink's JobRescaleDetails and JobResourceRequirementsBody)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flykka.actors.machines.read_model.job_read_model import MAX_RESCALES
from flykka.actors.machines.rescaling.adaptive_scheduler import MAX_FAILED_CHECKPOINTS
from flykka.actors.machines.slots.slot_pool import IDLE_TIMEOUT_MS
from flykka.messages.control.rescaling import (
    JobResourceRequirements,
    JobVertexResourceRequirements,
    Rescale,
    RescalesSnapshot,
    RescaleTerminalState,
    VertexRescale,
)
from flykka.messages.graph.job_graph import JobGraph
from flykka.messages.wire.ids import JobVertexId
from flykka.rest.errors import RestError
from flykka.rest.responses.checkpoints import summary_over
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.jobs import slot_sharing_group_id

_RESOURCES = ("taskHeapMemory", "taskOffHeapMemory", "managedMemory", "networkMemory")
NO_RESOURCES: Json = {"cpuCores": 0.0, **dict.fromkeys(_RESOURCES, 0), "extendedResources": {}}
"""A resource profile in which nothing is said: a slot is asked for as such."""


def resource_requirements(requirements: JobResourceRequirements) -> Json:
    """The bounds of each vertex, by its id."""
    return {
        each.vertex_id: {"parallelism": {"lowerBound": each.lower_bound, "upperBound": each.upper_bound}}
        for each in requirements.vertices
    }


def read_requirements(body: Mapping[str, object]) -> JobResourceRequirements:
    """The bounds that a request asks for. Raises `RestError` where it is not of their form."""
    made: list[JobVertexResourceRequirements] = []
    for vertex_id, said in body.items():
        match said:
            case {"parallelism": {"lowerBound": int(lower), "upperBound": int(upper)}}:
                made.append(
                    JobVertexResourceRequirements(
                        vertex_id=JobVertexId(vertex_id), lower_bound=lower, upper_bound=upper
                    )
                )
            case _:
                form = '{"parallelism": {"lowerBound": 1, "upperBound": 4}}'
                raise RestError(
                    400, f"the requirements of vertex {vertex_id!r} must be of the form {form}, not {said!r}"
                )
    return JobResourceRequirements(vertices=tuple(made))


def rescales_overview(snapshot: RescalesSnapshot) -> Json:
    """The counts, and the last rescale of each end."""
    latest = {rescale.terminal_state: rescale for rescale in snapshot.rescales}
    return {
        "rescalesCounts": _counts(snapshot),
        "latest": {
            state.lower(): rescale_details(latest[state]) if state in latest else None for state in RescaleTerminalState
        },
    }


def rescales_history(snapshot: RescalesSnapshot) -> list[Json]:
    return [rescale_details(rescale) for rescale in reversed(snapshot.rescales)]


def rescales_summary(snapshot: RescalesSnapshot) -> Json:
    """The counts, and how long those took that are kept."""
    ended = [rescale for rescale in snapshot.rescales if rescale.terminal_state is not None]
    return {
        "rescalesCounts": _counts(snapshot),
        "rescalesDurationStatsInMillis": _durations(ended),
        **{
            f"{state.lower()}RescalesDurationStatsInMillis": _durations(
                rescale for rescale in ended if rescale.terminal_state is state
            )
            for state in RescaleTerminalState
        },
    }


def rescale_config(graph: JobGraph) -> Json:
    """The settings that the rescales of a job go by; -1 is one that is not waited for."""
    return {
        "rescaleHistoryMax": MAX_RESCALES,
        "schedulerExecutionMode": None,
        "submissionResourceWaitTimeoutInMillis": graph.slot_request_timeout_ms,
        "submissionResourceStabilizationTimeoutInMillis": graph.resource_wait_timeout_ms,
        "slotIdleTimeoutInMillis": IDLE_TIMEOUT_MS,
        "executingCooldownTimeoutInMillis": graph.rescale_cooldown_ms,
        "executingResourceStabilizationTimeoutInMillis": graph.resource_wait_timeout_ms,
        "maximumDelayForTriggeringRescaleInMillis": -1,
        "rescaleOnFailedCheckpointCount": MAX_FAILED_CHECKPOINTS,
    }


def rescale_details(rescale: Rescale) -> Json:
    """A rescale. Its states carry no exception: those are in the exception history of the job."""
    return {
        "rescaleUuid": rescale.rescale_id,
        "resourceRequirementsUuid": rescale.requirements_id,
        "rescaleAttemptId": rescale.attempt,
        "vertices": {vertex.vertex_id: _vertex(vertex) for vertex in rescale.vertices},
        "slots": {
            slot_sharing_group_id(name): _slots(
                name, [each for each in rescale.vertices if each.slot_sharing_group == name]
            )
            for name in dict.fromkeys(vertex.slot_sharing_group for vertex in rescale.vertices)
        },
        "schedulerStates": [
            {
                "state": span.state.value,
                "enterTimestampInMillis": span.entered_ms,
                "leaveTimestampInMillis": span.left_ms,
                "durationInMillis": None if span.left_ms is None else span.left_ms - span.entered_ms,
                "stringifiedException": None,
            }
            for span in rescale.states
        ],
        "startTimestampInMillis": rescale.started_ms,
        "endTimestampInMillis": rescale.ended_ms,
        "terminalState": rescale.terminal_state,
        "triggerCause": rescale.trigger.value,
        "terminatedReason": rescale.reason,
        "comment": rescale.comment,
    }


def _vertex(vertex: VertexRescale) -> Json:
    return {
        "jobVertexId": vertex.vertex_id,
        "jobVertexName": vertex.name,
        "slotSharingGroupId": slot_sharing_group_id(vertex.slot_sharing_group),
        "slotSharingGroupName": vertex.slot_sharing_group,
        "desiredParallelism": vertex.desired_parallelism,
        "sufficientParallelism": vertex.sufficient_parallelism,
        "preRescaleParallelism": vertex.pre_parallelism,
        "postRescaleParallelism": vertex.post_parallelism,
    }


def _slots(name: str, vertices: list[VertexRescale]) -> Json:
    """A sharing group has as many slots as its widest vertex has subtasks."""
    before = [vertex.pre_parallelism for vertex in vertices if vertex.pre_parallelism is not None]
    after = [vertex.post_parallelism for vertex in vertices if vertex.post_parallelism is not None]
    return {
        "slotSharingGroupId": slot_sharing_group_id(name),
        "slotSharingGroupName": name,
        "requestResourceProfile": NO_RESOURCES,
        "desiredSlots": max(vertex.desired_parallelism for vertex in vertices),
        "minimalRequiredSlots": max(vertex.sufficient_parallelism for vertex in vertices),
        "preRescaleSlots": max(before, default=None),
        "postRescaleSlots": max(after, default=None),
        "acquiredResourceProfile": NO_RESOURCES,
    }


def _counts(snapshot: RescalesSnapshot) -> Json:
    return {
        "ignored": snapshot.ignored,
        "inProgress": sum(rescale.terminal_state is None for rescale in snapshot.rescales),
        "completed": snapshot.completed,
        "failed": snapshot.failed,
    }


def _durations(rescales: Iterable[Rescale]) -> Json:
    return summary_over([rescale.ended_ms - rescale.started_ms for rescale in rescales if rescale.ended_ms is not None])
