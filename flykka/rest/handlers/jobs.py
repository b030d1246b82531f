"""Jobs: the list, and a single job with its plan, configuration, failures and result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from flykka.diagnosis.collection import TIME_LIMIT
from flykka.diagnosis.job_diagnosis import JobDiagnosis
from flykka.diagnosis.job_queries import ClusterQueries
from flykka.messages.monitoring.exception_history import ExceptionHistoryEntry, RootExceptionHistoryEntry
from flykka.rest.costly import Cost, Costly
from flykka.rest.endpoint import TEXT, Endpoint, Query, Text, fields
from flykka.rest.errors import RestError
from flykka.rest.gateway import RestfulGateway
from flykka.rest.responses.configuration import environment, job_configuration
from flykka.rest.responses.io_metrics import Json
from flykka.rest.responses.jobs import (
    execution_result,
    ids_with_status,
    job_config,
    job_details,
    jobs_overview,
    plan,
    stack_of,
)
from flykka.rest.responses.vertices import accumulators

SUBTASKS_SHOWN = 2_000
"""The overview of a job with more subtasks omits the times and counts of vertices."""

LONGEST_WHY_S = 10.0
"""The maximum seconds that an actor has to reply. The request may take three times as long."""


class JobHandlers:
    def __init__(self, gateway: ClusterQueries, now_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._now_ms = now_ms

    def endpoints(self) -> Iterator[Endpoint]:
        job = "/jobs/{jobid}"
        yield Endpoint("/jobs", self._ids, "The ids and states of all jobs", pages="jobs")
        yield Endpoint("/jobs/overview", self._overview, "All jobs, with the states of their tasks", pages="jobs")
        yield Endpoint(job, self._details, "A job, its vertices and its plan")
        yield Endpoint(f"{job}/status", self._status, "The state of a job")
        yield Endpoint(f"{job}/plan", self._plan, "The plan of a job")
        yield Endpoint(f"{job}/config", self._config, "The configuration of a job")
        yield Endpoint(
            f"{job}/exceptions",
            self._exceptions,
            "The last failures of a job",
            arguments={"maxExceptions": "integer", "failureLabelFilter": "string"},
        )
        limit = {"timeout": "integer"}
        what = "A diagnosis of why a job makes no progress, as text (timeout in ms)"
        yield Endpoint(f"{job}/why", self._why, what, arguments=limit, gives=TEXT)
        yield Endpoint(
            f"{job}/diagnosis", self._diagnosis, "The same diagnosis as JSON (timeout in ms)", arguments=limit
        )
        yield Endpoint(f"{job}/accumulators", self._accumulators, "The accumulators of a job")
        yield Endpoint(f"{job}/execution-result", self._result, "The result of a job, if it has ended")
        yield Endpoint(f"{job}/jobmanager/config", self._settings, "The settings under which a job runs or ran")
        yield Endpoint(f"{job}/jobmanager/environment", self._environment, "The interpreter that it runs or ran in")

    def _ids(self, query: Query) -> Json:
        return ids_with_status(self._gateway.jobs())

    def _overview(self, query: Query) -> Json:
        return jobs_overview(self._gateway.jobs())

    def _details(self, query: Query) -> Json:
        job_id = query.job_id
        details, graph = self._gateway.details(job_id), self._gateway.graph(job_id)
        many = sum(vertex.parallelism for vertex in details.vertices) > SUBTASKS_SHOWN
        vertices = () if many else details.vertices
        subtasks = {vertex.vertex_id: self._gateway.vertex(job_id, vertex.vertex_id)[1] for vertex in vertices}
        return job_details(details, graph, subtasks, self._now_ms())

    def _status(self, query: Query) -> Json:
        return {"status": self._gateway.details(query.job_id).status.value}

    def _plan(self, query: Query) -> Json:
        return {"plan": plan(self._gateway.graph(query.job_id))}

    def _config(self, query: Query) -> Json:
        return job_config(self._gateway.graph(query.job_id))

    def _settings(self, query: Query) -> list[Json]:
        return job_configuration(self._gateway.graph(query.job_id))

    def _environment(self, query: Query) -> Json:
        return environment(self._gateway.environment(query.job_id))

    def _exceptions(self, query: Query) -> Json:
        labelled = label_filter(query.arguments.get("failureLabelFilter"))
        entries = self._gateway.details(query.job_id).exceptions
        return exception_history(entries, query.number("maxExceptions", 20), labelled)

    def _why(self, query: Query) -> Costly:
        return self._diagnosed("why", query, lambda diagnosed: Text(text=str(diagnosed)))

    def _diagnosis(self, query: Query) -> Costly:
        return self._diagnosed("diagnosis", query, diagnosis)

    def _diagnosed(self, what: str, query: Query, answer: Callable[[JobDiagnosis], object]) -> Costly:
        job_id, timeout_ms = query.job_id, query.number("timeout", round(1_000 * TIME_LIMIT))
        limit = min(timeout_ms / 1_000, LONGEST_WHY_S)
        return Costly(
            cost=Cost.ACTORS,
            make=lambda: answer(self._gateway.diagnosis(job_id, limit)),
            key=(what, job_id, limit),
        )

    def _accumulators(self, query: Query) -> Json:
        results = self._gateway.details(query.job_id).accumulators
        return {
            "job-accumulators": [],
            "user-task-accumulators": accumulators(results.merged),
            "serialized-user-task-accumulators": {},
        }

    def _result(self, query: Query) -> Json:
        return execution_result(self._gateway.details(query.job_id))


class CancelHandlers:
    """Cancels a job, at once or when its client stops sending heartbeats."""

    def __init__(self, gateway: RestfulGateway) -> None:
        self._gateway = gateway

    def endpoints(self) -> Iterator[Endpoint]:
        job = "/jobs/{jobid}"
        how = {"mode": "string", "deleteCheckpoints": "boolean"}
        what = "Cancel a job (mode=cancel); deleteCheckpoints=true deletes its checkpoints"
        yield Endpoint(job, self._cancel, what, "PATCH", 202, arguments=how)
        what = "Cancel a job, in the way Flink's web dashboard does"
        yield Endpoint(f"{job}/yarn-cancel", self._cancel, what, status=202, acts=True, arguments=how)
        yield Endpoint(f"{job}/yarn-stop", self._stop, "Rejected as in Flink; the error says how to stop a job")
        what = "A heartbeat of a job's client: the job is cancelled at its expiredTimestamp without another one"
        body = fields(["expiredTimestamp"], expiredTimestamp="integer")
        yield Endpoint(f"{job}/clientHeartbeat", self._heartbeat, what, "PATCH", 202, body=body)

    def _cancel(self, query: Query) -> Json:
        match query.arguments.get("mode", "cancel").lower():
            case "cancel":
                deletes = query.arguments.get("deleteCheckpoints", "false").lower()
                if deletes not in ("true", "false"):
                    raise RestError(400, f"'deleteCheckpoints' must be true or false, not {deletes!r}")
                self._gateway.cancel(query.job_id, delete_checkpoints=deletes == "true")
                return {}
            case "stop":
                return self._stop(query)
            case other:
                raise RestError(400, f"unknown mode {other!r}: the only mode is cancel")

    def _stop(self, query: Query) -> Json:
        raise RestError(
            308,
            'this mode does not stop a job: "cancel" ends it at once, and POST "jobs/:jobid/stop" stops it with a'
            " savepoint",
        )

    def _heartbeat(self, query: Query) -> Json:
        expires_ms = query.body.get("expiredTimestamp")
        if not isinstance(expires_ms, int) or isinstance(expires_ms, bool) or expires_ms < 0:
            raise RestError(400, f"'expiredTimestamp' must be a time in ms since the epoch, not {expires_ms!r}")
        self._gateway.report_client_heartbeat(query.job_id, expires_ms)
        return {}


def exception_history(
    entries: Sequence[RootExceptionHistoryEntry], most: int, labelled: Mapping[str, str] | None = None
) -> Json:
    """Format the last failures, at most `most`. `truncated` is true if there are more.

    If `labelled` is not empty, only failures with all of these labels are included.
    """
    labels = (labelled or {}).items()
    newest = [entry for entry in reversed(entries) if labels <= _labels(entry.root).items()]
    return {
        "exceptionHistory": {
            "entries": [
                {
                    **_failure(entry.root),
                    **_repeated(entry),
                    "concurrentExceptions": [_failure(each) for each in entry.concurrent],
                }
                for entry in newest[:most]
            ],
            "truncated": len(newest) > most,
        }
    }


def label_filter(text: str | None) -> dict[str, str]:
    """Parse `key:value,key:value`, Flink's format of labels in queries. Raises `RestError` if it is invalid."""
    labels: dict[str, str] = {}
    for pair in (text or "").split(","):
        key, colon, value = pair.partition(":")
        if not pair:
            continue
        if not (key and colon and value):
            raise RestError(400, f"'failureLabelFilter' is key:value, several with commas between, not {pair!r}")
        if labels.setdefault(key, value) != value:
            raise RestError(400, f"'failureLabelFilter' names {key!r} twice")
    return labels


def _labels(entry: ExceptionHistoryEntry) -> dict[str, str]:
    return {label.key: label.value for label in entry.failure_labels}


def _repeated(entry: RootExceptionHistoryEntry) -> Json:
    """Format when a failure was last repeated. The number of repetitions is a label."""
    if entry.last_timestamp_ms is None:
        return {}
    labels = {"times": str(entry.times), **_labels(entry.root)}
    return {"timestamp": entry.last_timestamp_ms, "failureLabels": labels}


def _failure(entry: ExceptionHistoryEntry) -> Json:
    cause = entry.cause
    answer: Json = {
        "exceptionName": cause.type_name,
        "stacktrace": stack_of(cause),
        "timestamp": entry.timestamp_ms,
        "failureLabels": _labels(entry),
    }
    if entry.task_name is not None:
        answer["taskName"] = entry.task_name
    if entry.task_manager is not None:
        answer |= {"endpoint": entry.task_manager, "taskManagerId": entry.task_manager}
    return answer


def diagnosis(parts: JobDiagnosis) -> Json:
    """Format a diagnosis. A fact without a label continues the previous fact."""
    return {
        "answer": parts.answer,
        "facts": [list(fact) for fact in parts.facts],
        "attempts": [
            {
                "name": each.name,
                "vertex": each.vertex_id,
                "state": each.state,
                "taskManager": each.where,
                "is": each.activity,
                "for": each.lasting,
                "waitsFor": each.waits_for,
            }
            for each in parts.attempts
        ],
        "leftOut": parts.left_out,
    }
