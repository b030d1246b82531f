"""RestClusterClient: accesses a running flykka through its REST interface, from any machine (Flink's class)."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen
from uuid import uuid4

from flykka.client.running_jobs import token_for
from flykka.errors import (
    CheckpointError,
    ClusterError,
    FlykkaError,
    JobCancellationError,
    JobStoppingError,
    RescaleError,
    SavepointError,
    UnknownJobError,
)
from flykka.messages.wire.ids import JobId, JobVertexId

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Seconds between two polls: the first and the longest pause. The pause doubles after each poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobResult:
    """The result of a job. `application_status` is SUCCEEDED, FAILED or CANCELED. `accumulators` are strings.

    `cause` is the reason of a failure. It is None if a user cancelled the job.
    """

    job_id: JobId
    application_status: str
    net_runtime_ms: int
    accumulators: dict[str, str]
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHeartbeats:
    """Times of heartbeats, in seconds. The client sends one each `interval`. The job is cancelled `timeout` after the
    last.
    """

    interval: float = 30.0
    timeout: float = 180.0


class WaitingClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def pauses() -> Iterator[float]:
    pause = FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)


def result_of(job_id: JobId, answer: dict[str, Any]) -> RemoteJobResult | None:
    """Parse the result in a REST response. Returns None if the job has not ended."""
    result = answer.get("job-execution-result")
    if answer["status"]["id"] != "COMPLETED" or result is None:
        return None
    cause = result.get("failure-cause")
    return RemoteJobResult(
        job_id=job_id,
        application_status=result["application-status"],
        net_runtime_ms=result["net-runtime"],
        accumulators=result["accumulator-results"],
        cause=None if cause is None else cause["stack-trace"],
    )


def await_result(
    ask: Callable[[], RemoteJobResult | None],
    send_heartbeat: Callable[[int], object],
    heartbeats: ClientHeartbeats | None,
    timeout: float | None,
    clock: WaitingClock | None = None,
) -> RemoteJobResult | None:
    """Poll for the result and send heartbeats, if any. Returns None if there is no result after `timeout` seconds.

    A heartbeat contains the time at which it expires, in milliseconds since the epoch.
    """
    clock = clock or WaitingClock()
    waits = pauses()
    next_heartbeat = started = clock.monotonic()
    while (result := ask()) is None:
        now = clock.monotonic()
        if timeout is not None and now - started >= timeout:
            return None
        if heartbeats is not None and now >= next_heartbeat:
            send_heartbeat(round(1_000 * (clock.time() + heartbeats.timeout)))
            next_heartbeat = now + heartbeats.interval
        # The next poll must not delay the next heartbeat or the timeout.
        limits = [] if heartbeats is None else [next_heartbeat - now]
        limits += [] if timeout is None else [started + timeout - now]
        clock.sleep(max(0.0, min(next(waits), *limits, LONGEST_PAUSE_S)))
    return result


_TIMEOUT_S = 35.0
"""Seconds to wait for a response. The timeout of the server is shorter."""

RETRY_MAX_ATTEMPTS = 20
RETRY_DELAY_S = 3.0
"""The number of attempts, and the seconds between them, if a request is refused temporarily: Flink's `rest.retry`."""


def _ignore(text: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A job in a list. Times are in milliseconds since the epoch. The end is -1 if the job has not ended."""

    job_id: JobId
    name: str
    status: str
    started_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVertex:
    vertex_id: JobVertexId
    name: str
    parallelism: int
    max_parallelism: int


class RestClusterClient:
    """A client of the server at `HOST:PORT` or a URL. Calls block, and raise `ClusterError` if there is no response."""

    def __init__(
        self,
        address: str,
        *,
        token_file: str | None = None,
        ca_file: str | None = None,
        timeout: float = _TIMEOUT_S,
        on_retry: Callable[[str], object] = _ignore,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`ca_file` contains certificates to trust for `https`, in addition to the system's.

        Without a `token_file` the client uses the token of a job that this user runs on this machine. Before a request
        is repeated, the reason is passed to `on_retry`.

        Raises:
            ClusterError: the token or the certificates cannot be read.
        """
        self._base = address.rstrip("/") if "://" in address else f"http://{address}"
        self._timeout = timeout
        self._on_retry = on_retry
        self._sleep = sleep
        try:
            self._token = None if token_file is None else Path(token_file).read_text().strip()
            self._tls = ssl.create_default_context(cafile=ca_file) if self._base.startswith("https:") else None
        except (OSError, ssl.SSLError) as refused:
            raise ClusterError(f"the cluster at {address} cannot be queried: {refused}") from None

    @property
    def address(self) -> str:
        return self._base

    @property
    def token(self) -> str | None:
        """The token from the file, or else the token of this user's job that serves this address."""
        return self._token or token_for(self._base)

    def jobs(self) -> list[ListedJob]:
        return [
            ListedJob(
                job_id=JobId(job["jid"]),
                name=job["name"],
                status=job["state"],
                started_ms=job["start-time"],
                ended_ms=job["end-time"],
            )
            for job in self._request("GET", "/jobs/overview")["jobs"]
        ]

    def find(self, name_or_id: str | None) -> ListedJob:
        """Return the job with this name or id prefix. Without an argument, return the only job that has not ended.

        Raises:
            UnknownJobError: there is no such job, or there are several.
        """
        jobs = self.jobs()
        if name_or_id is None:
            matches = [job for job in jobs if job.ended_ms < 0]
        else:
            matches = [job for job in jobs if name_or_id == job.name or job.job_id.startswith(name_or_id)]
            # If several jobs had the name, the running job is preferred.
            matches = [job for job in matches if job.ended_ms < 0] or matches
        if len(matches) == 1:
            return matches[0]
        what = "no job runs" if name_or_id is None else f"there is no job {name_or_id!r}"
        if matches:
            listed = ", ".join(f"{job.name!r} {job.job_id}" for job in matches)
            what = f"there are {len(matches)} jobs, so one must be specified: {listed}"
        raise UnknownJobError(f"{what} at {self._base}")

    def cancel(self, job_id: JobId, *, delete_checkpoints: bool = False) -> None:
        """Request the cancellation of a job. Raises `JobCancellationError` if it has ended."""
        deletes = "&deleteCheckpoints=true" if delete_checkpoints else ""
        with _raise_refusals_as(JobCancellationError):
            self._request("PATCH", f"/jobs/{job_id}?mode=cancel{deletes}")

    def stop_with_savepoint(self, job_id: JobId, directory: str | None, *, drain: bool = False) -> str:
        """Stop a job with a savepoint. Returns its path when it is complete. Raises `JobStoppingError`."""
        with _raise_refusals_as(JobStoppingError):
            body = {"targetDirectory": directory, "drain": drain}
            return str(self._operation(job_id, "stop", "savepoints", body)["location"])

    def trigger_savepoint(self, job_id: JobId, directory: str | None) -> str:
        """Take a savepoint. Returns its path when it is complete. Raises `SavepointError`."""
        with _raise_refusals_as(SavepointError):
            body = {"target-directory": directory}
            return str(self._operation(job_id, "savepoints", "savepoints", body)["location"])

    def trigger_checkpoint(self, job_id: JobId, checkpoint_type: str) -> int:
        """Take a checkpoint. Returns its id when it is complete. Raises `CheckpointError`."""
        with _raise_refusals_as(CheckpointError):
            operation = self._operation(job_id, "checkpoints", "checkpoints", {"checkpointType": checkpoint_type})
        return int(operation["checkpointId"])

    def job_result(self, job_id: JobId) -> RemoteJobResult | None:
        return result_of(job_id, self._request("GET", f"/jobs/{job_id}/execution-result"))

    def report_client_heartbeat(self, job_id: JobId, expired_timestamp_ms: int) -> None:
        """Report that a job's client is alive. Without further reports, the job is cancelled at `expired_timestamp_ms`.

        The time is in milliseconds since the epoch.

        Raises:
            UnknownJobError: there is no such job, or it has ended.
        """
        with _raise_refusals_as(UnknownJobError):
            self._request("PATCH", f"/jobs/{job_id}/clientHeartbeat", {"expiredTimestamp": expired_timestamp_ms})

    def wait(
        self, job_id: JobId, timeout: float | None = None, *, heartbeats: ClientHeartbeats | None = None
    ) -> RemoteJobResult:
        """Wait until a job has ended. With `heartbeats`, the job is cancelled if this process dies meanwhile.

        Raises:
            TimeoutError: the job is still running after `timeout` seconds.
        """

        def send_heartbeat(expires_ms: int) -> None:
            # If the job has ended since the last poll, the next poll returns its result.
            with suppress(UnknownJobError):
                self.report_client_heartbeat(job_id, expires_ms)

        result = await_result(lambda: self.job_result(job_id), send_heartbeat, heartbeats, timeout)
        if result is None:
            raise TimeoutError(f"job {job_id} has not ended after {timeout} seconds")
        return result

    def requirements(self, job_id: JobId) -> dict[str, tuple[int, int]]:
        answer = self._request("GET", f"/jobs/{job_id}/resource-requirements")
        bounds = {vertex: each["parallelism"] for vertex, each in answer.items()}
        return {vertex: (each["lowerBound"], each["upperBound"]) for vertex, each in bounds.items()}

    def update_requirements(self, job_id: JobId, requirements: Mapping[str, tuple[int, int]]) -> None:
        """Set bounds of parallelism for vertices, by id. Raises `RescaleError`."""
        body = {
            vertex: {"parallelism": {"lowerBound": lower, "upperBound": upper}}
            for vertex, (lower, upper) in requirements.items()
        }
        with _raise_refusals_as(RescaleError):
            self._request("PUT", f"/jobs/{job_id}/resource-requirements", body)

    def vertices(self, job_id: JobId) -> list[ListedVertex]:
        """Return the vertices of a job in topological order."""
        return [
            ListedVertex(
                vertex_id=JobVertexId(vertex["id"]),
                name=vertex["name"],
                parallelism=vertex["parallelism"],
                max_parallelism=vertex["maxParallelism"],
            )
            for vertex in self._request("GET", f"/jobs/{job_id}")["vertices"]
        ]

    def why(self, job_id: JobId, timeout_ms: int) -> str:
        """Diagnose why a job makes no progress. Each actor of the job has `timeout_ms` to reply."""
        return str(self._request("GET", f"/jobs/{job_id}/why?timeout={timeout_ms}"))

    def _operation(self, job_id: JobId, kind: str, results: str, body: dict[str, Any]) -> dict[str, Any]:
        """Start an operation, poll for its result at the path `results`, and return the result."""
        # The trigger id makes a repeated request refer to the same operation.
        content = {name: value for name, value in body.items() if value is not None} | {"triggerId": uuid4().hex}
        request = self._request("POST", f"/jobs/{job_id}/{kind}", content)["request-id"]
        for pause in pauses():
            answer = self._request("GET", f"/jobs/{job_id}/{results}/{quote(request)}")
            if answer["status"]["id"] == "COMPLETED":
                break
            self._sleep(pause)
        operation: dict[str, Any] = answer["operation"]
        if (cause := operation.get("failure-cause", operation.get("failureCause"))) is not None:
            raise _RefusedError(cause["stack-trace"].removeprefix(f"{cause['class']}: "))
        return operation

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        token = self.token
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        content = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._base}/v1{path}", content, headers, method=method)
        for _ in range(RETRY_MAX_ATTEMPTS - 1):
            try:
                return self._answer(request)
            except _UnavailableError as passing:
                self._on_retry(str(passing))
                self._sleep(RETRY_DELAY_S)
        try:
            return self._answer(request)
        except _UnavailableError as still:
            raise ClusterError(f"{self._base} refuses the request, {RETRY_MAX_ATTEMPTS} times: {still}") from None

    def _answer(self, request: Request) -> Any:
        try:
            with urlopen(request, timeout=self._timeout, context=self._tls) as answer:
                is_json = answer.headers.get_content_type() == "application/json"
                text = answer.read().decode()
                return json.loads(text) if is_json else text
        except HTTPError as refused:
            errors = _errors(refused)
            if refused.code == 503 and "Retry-After" in refused.headers:
                raise _UnavailableError(errors) from None
            if refused.code in (400, 409, 500) and request.get_method() != "GET":
                raise _RefusedError(errors) from None
            is_of_a_job = request.full_url.startswith(f"{self._base}/v1/jobs/")
            kind = UnknownJobError if refused.code == 404 and is_of_a_job else ClusterError
            raise kind(f"{self._base} refuses the request: {errors}") from None
        except (URLError, OSError, ValueError) as silent:
            reason = getattr(silent, "reason", silent)
            raise ClusterError(f"no flykka answers at {self._base}: {reason}") from None


class _UnavailableError(Exception):
    """The server cannot handle the request now, and asks for a retry."""


class _RefusedError(Exception):
    """The server refused the request, or the operation failed."""


@contextmanager
def _raise_refusals_as(error: type[FlykkaError]) -> Iterator[None]:
    try:
        yield
    except _RefusedError as refused:
        raise error(str(refused)) from None


def _errors(refused: HTTPError) -> str:
    try:
        return "; ".join(json.loads(refused.read())["errors"]) or refused.reason
    except (ValueError, KeyError, TypeError):
        return f"{refused.code} {refused.reason}"
