"""Rescaling: the bounds of a job's parallelism, and the history of rescales.

Follows Flink's JobRescaleDetails and JobResourceRequirementsBody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from flykka.actors.machines.read_model.job_read_model import MAX_RESCALES
from flykka.actors.machines.rescaling.adaptive_scheduler import MAX_FAILED_CHECKPOINTS
from flykka.actors.machines.slots.slot_pool import IDLE_TIMEOUT_MS
from flykka.diagnosis.job_queries import JobQueries
from flykka.messages.control.rescaling import (
    JobResourceRequirements,
    JobVertexResourceRequirements,
    Rescale,
    RescalesSnapshot,
    RescaleTerminalState,
    VertexRescale,
)
from flykka.messages.wire.ids import JobVertexId
from flykka.rest.endpoint import Endpoint, Query, fields
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.responses.io_metrics import Json, summary_over
from flykka.rest.responses.jobs import slot_sharing_group_id

_BOUNDS = {"lowerBound": "integer", "upperBound": "integer"}


class RescaleHandlers:
    def __init__(self, gateway: JobQueries) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        rescales = "/jobs/{jobid}/rescales"
        yield Endpoint(f"{rescales}/overview", self._overview, "The rescales of a job: counts, and the last ones")
        yield Endpoint(f"{rescales}/history", self._history, "The last rescales of a job, the newest first")
        yield Endpoint(f"{rescales}/summary", self._summary, "The durations of the rescales of a job")
        yield Endpoint(f"{rescales}/config", self._config, "The settings of the rescales of a job")
        yield Endpoint(f"{rescales}/details/{{rescaleuuid}}", self._details, "A rescale of a job")

    def _overview(self, query: Query) -> Json:
        return rescales_overview(self._rescales(query))

    def _history(self, query: Query) -> list[Json]:
        return rescales_history(self._rescales(query))

    def _summary(self, query: Query) -> Json:
        return rescales_summary(self._rescales(query))

    def _config(self, query: Query) -> Json:
        graph = self._gateway.graph(query.job_id)
        # The value -1 means that there is no maximum delay.
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

    def _details(self, query: Query) -> Json:
        rescale_id = query.path["rescaleuuid"]
        for rescale in self._rescales(query).rescales:
            if rescale.rescale_id == rescale_id:
                return rescale_details(rescale)
        raise RestError(404, f"rescale {rescale_id} of job {query.job_id} is no longer in the history")

    def _rescales(self, query: Query) -> RescalesSnapshot:
        return self._gateway.rescales(query.job_id)


class ResourceRequirementsHandlers:
    def __init__(self, gateway: RestfulGateway) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        path = "/jobs/{jobid}/resource-requirements"
        yield Endpoint(path, self._requirements, "The bounds of the parallelism of each vertex of a job")
        bounds = fields(["parallelism"]) | {"properties": {"parallelism": fields(**_BOUNDS)}}
        body = {"type": "object", "additionalProperties": bounds}
        yield Endpoint(path, self._update, "Rescale a job: new bounds for its vertices, by id", "PUT", body=body)

    def _requirements(self, query: Query) -> Json:
        return {
            each.vertex_id: {"parallelism": {"lowerBound": each.lower_bound, "upperBound": each.upper_bound}}
            for each in self._gateway.requirements(query.job_id).vertices
        }

    def _update(self, query: Query) -> Json:
        self._gateway.update_requirements(query.job_id, read_requirements(query.body))
        return {}


_RESOURCES = ("taskHeapMemory", "taskOffHeapMemory", "managedMemory", "networkMemory")
NO_RESOURCES: Json = {"cpuCores": 0.0, **dict.fromkeys(_RESOURCES, 0), "extendedResources": {}}


def read_requirements(body: Mapping[str, object]) -> JobResourceRequirements:
    requirements: list[JobVertexResourceRequirements] = []
    for vertex_id, bounds in body.items():
        match bounds:
            case {"parallelism": {"lowerBound": int(lower), "upperBound": int(upper)}} if bool not in (
                type(lower),
                type(upper),
            ):
                requirements.append(
                    JobVertexResourceRequirements(
                        vertex_id=JobVertexId(vertex_id), lower_bound=lower, upper_bound=upper
                    )
                )
            case _:
                form = '{"parallelism": {"lowerBound": 1, "upperBound": 4}}'
                raise RestError(
                    400, f"the requirements of vertex {vertex_id!r} must be of the form {form}, not {bounds!r}"
                )
    return JobResourceRequirements(vertices=tuple(requirements))


def rescales_overview(snapshot: RescalesSnapshot) -> Json:
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


def rescale_details(rescale: Rescale) -> Json:
    """Format a rescale. Its states contain no exceptions, which are in the job's exception history."""
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
    """Format a slot sharing group. It has as many slots as its widest vertex has subtasks."""
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
