"""RestClusterClient: asks a running flykka by its REST interface, from any machine (Flink's RestClusterClient)."""

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

from flykka.client.running_jobs import token_at
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
"""Seconds between two questions, twice as long after each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobResult:
    """The result: `application_status` is SUCCEEDED, FAILED or CANCELED. `accumulators` are texts.

    `cause` says why it did not succeed, None where a user cancelled it.
    """

    job_id: JobId
    application_status: str
    net_runtime_ms: int
    accumulators: dict[str, str]
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHeartbeats:
    """Signs of life, in seconds: one each `interval`, and the job is cancelled where there was none for `timeout`."""

    interval: float = 30.0
    timeout: float = 180.0


class WaitingClock:
    """The time of a client that waits, in seconds."""

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
    """The result in an answer of the REST interface; None where the job has not ended."""
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
    give_sign_of_life: Callable[[int], object],
    heartbeats: ClientHeartbeats | None,
    timeout: float | None,
    clock: WaitingClock | None = None,
) -> RemoteJobResult | None:
    """Ask again and again, with signs of life where they are wanted; None where there is no result after `timeout` s.

    A sign of life is given the time at which it expires, in ms since the epoch.
    """
    clock = clock or WaitingClock()
    waits = pauses()
    next_sign = begun = clock.monotonic()
    while (result := ask()) is None:
        now = clock.monotonic()
        if timeout is not None and now - begun >= timeout:
            return None
        if heartbeats is not None and now >= next_sign:
            give_sign_of_life(round(1_000 * (clock.time() + heartbeats.timeout)))
            next_sign = now + heartbeats.interval
        # The next sign of life is not to be late, nor the end of the time.
        left = [] if heartbeats is None else [next_sign - now]
        left += [] if timeout is None else [begun + timeout - now]
        clock.sleep(max(0.0, min(next(waits), *left, LONGEST_PAUSE_S)))
    return result


_TIMEOUT_S = 35.0
"""Seconds for an answer: the server gives up sooner."""

RETRY_MAX_ATTEMPTS = 20
RETRY_DELAY_S = 3.0
"""A request that is refused for a reason that passes is made so often, with this pause: Flink's `rest.retry`."""


def _unsaid(text: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A job as it is listed; times in ms since the epoch, -1 for an end that has not come."""

    job_id: JobId
    name: str
    status: str
    started_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVertex:
    """A vertex of a job, and with how many subtasks it runs and may run."""

    vertex_id: JobVertexId
    name: str
    parallelism: int
    max_parallelism: int


class RestClusterClient:
    """Of the server at `HOST:PORT` or a URL. Every call blocks, and raises `ClusterError` where nobody answers."""

    def __init__(
        self,
        address: str,
        *,
        token_file: str | None = None,
        ca_file: str | None = None,
        timeout: float = _TIMEOUT_S,
        on_retry: Callable[[str], object] = _unsaid,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`ca_file` holds the certificates that are trusted beside the system's, for `https`.

        Without a `token_file` the token of a job of this user on this machine is found by itself.

        What keeps the server from answering at this moment is told to `on_retry`, before the request is made again.

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
            raise ClusterError(f"the cluster at {address} cannot be asked: {refused}") from None

    @property
    def address(self) -> str:
        return self._base

    @property
    def token(self) -> str | None:
        """The token of the file, else that of a job of this user which answers there now; None if there is none."""
        return self._token or token_at(self._base)

    def jobs(self) -> list[ListedJob]:
        """The jobs that run, and the last that have ended."""
        return [
            ListedJob(
                job_id=JobId(job["jid"]),
                name=job["name"],
                status=job["state"],
                started_ms=job["start-time"],
                ended_ms=job["end-time"],
            )
            for job in self._ask("GET", "/jobs/overview")["jobs"]
        ]

    def find(self, wanted: str | None) -> ListedJob:
        """The job of this name, or whose id begins like this; the one that has not ended where none is named.

        Raises:
            UnknownJobError: there is none, or there are several.
        """
        jobs = self.jobs()
        if wanted is None:
            fitting = [job for job in jobs if job.ended_ms < 0]
        else:
            fitting = [job for job in jobs if wanted == job.name or job.job_id.startswith(wanted)]
            # A name is given again and again: the job that runs is meant.
            fitting = [job for job in fitting if job.ended_ms < 0] or fitting
        if len(fitting) == 1:
            return fitting[0]
        what = "no job runs" if wanted is None else f"there is no job {wanted!r}"
        if fitting:
            listed = ", ".join(f"{job.name!r} {job.job_id}" for job in fitting)
            what = f"there are {len(fitting)} jobs, of which one must be named: {listed}"
        raise UnknownJobError(f"{what} at {self._base}")

    def cancel(self, job_id: JobId, *, delete_checkpoints: bool = False) -> None:
        """Have a job cancelled. Raises `JobCancellationError` where it has ended."""
        deletes = "&deleteCheckpoints=true" if delete_checkpoints else ""
        with _refused_as(JobCancellationError):
            self._ask("PATCH", f"/jobs/{job_id}?mode=cancel{deletes}")

    def stop_with_savepoint(self, job_id: JobId, directory: str | None, *, drain: bool = False) -> str:
        """Stop a job with a savepoint; its path, when it is done. Raises `JobStoppingError`."""
        with _refused_as(JobStoppingError):
            body = {"targetDirectory": directory, "drain": drain}
            return str(self._operation(job_id, "stop", "savepoints", body)["location"])

    def trigger_savepoint(self, job_id: JobId, directory: str | None) -> str:
        """Take a savepoint; its path, when it is complete. Raises `SavepointError`."""
        with _refused_as(SavepointError):
            body = {"target-directory": directory}
            return str(self._operation(job_id, "savepoints", "savepoints", body)["location"])

    def trigger_checkpoint(self, job_id: JobId, checkpoint_type: str) -> int:
        """Take a checkpoint; its number, when it is complete. Raises `CheckpointError`."""
        with _refused_as(CheckpointError):
            found = self._operation(job_id, "checkpoints", "checkpoints", {"checkpointType": checkpoint_type})
        return int(found["checkpointId"])

    def job_result(self, job_id: JobId) -> RemoteJobResult | None:
        """The result of a job that has ended; None where it runs."""
        return result_of(job_id, self._ask("GET", f"/jobs/{job_id}/execution-result"))

    def report_client_heartbeat(self, job_id: JobId, expired_timestamp_ms: int) -> None:
        """Say that the client of a job lives. Unless it is said again, the job is cancelled then (ms since the epoch).

        Raises:
            UnknownJobError: there is no such job, or it has ended.
        """
        with _refused_as(UnknownJobError):
            self._ask("PATCH", f"/jobs/{job_id}/clientHeartbeat", {"expiredTimestamp": expired_timestamp_ms})

    def wait(
        self, job_id: JobId, timeout: float | None = None, *, heartbeats: ClientHeartbeats | None = None
    ) -> RemoteJobResult:
        """Wait until a job has ended. With `heartbeats`, it is cancelled where this process dies meanwhile.

        Raises:
            TimeoutError: it still runs after `timeout` seconds.
        """

        def give_sign_of_life(expires_ms: int) -> None:
            # It may have ended since it was asked: then its result tells.
            with suppress(UnknownJobError):
                self.report_client_heartbeat(job_id, expires_ms)

        result = await_result(lambda: self.job_result(job_id), give_sign_of_life, heartbeats, timeout)
        if result is None:
            raise TimeoutError(f"job {job_id} has not ended after {timeout} seconds")
        return result

    def requirements(self, job_id: JobId) -> dict[str, tuple[int, int]]:
        """Return the least and the greatest parallelism of each vertex, by its id."""
        found = self._ask("GET", f"/jobs/{job_id}/resource-requirements")
        bounds = {vertex: each["parallelism"] for vertex, each in found.items()}
        return {vertex: (each["lowerBound"], each["upperBound"]) for vertex, each in bounds.items()}

    def update_requirements(self, job_id: JobId, requirements: Mapping[str, tuple[int, int]]) -> None:
        """Have a job run within these bounds of its vertices, by their ids. Raises `RescaleError`."""
        body = {
            vertex: {"parallelism": {"lowerBound": lower, "upperBound": upper}}
            for vertex, (lower, upper) in requirements.items()
        }
        with _refused_as(RescaleError):
            self._ask("PUT", f"/jobs/{job_id}/resource-requirements", body)

    def vertices(self, job_id: JobId) -> list[ListedVertex]:
        """The vertices of a job, in topological order."""
        return [
            ListedVertex(
                vertex_id=JobVertexId(vertex["id"]),
                name=vertex["name"],
                parallelism=vertex["parallelism"],
                max_parallelism=vertex["maxParallelism"],
            )
            for vertex in self._ask("GET", f"/jobs/{job_id}")["vertices"]
        ]

    def why(self, job_id: JobId, timeout_ms: int) -> str:
        """Tell why a job does not go on, or what it does. Each of its actors has `timeout_ms` for its answer."""
        return str(self._ask("GET", f"/jobs/{job_id}/why?timeout={timeout_ms}"))

    def _operation(self, job_id: JobId, kind: str, results: str, body: dict[str, Any]) -> dict[str, Any]:
        """Have something done, and return what came of it, which is asked for below `results`."""
        # With an id of ours the same request made again is the same operation.
        given = {name: value for name, value in body.items() if value is not None} | {"triggerId": uuid4().hex}
        request = self._ask("POST", f"/jobs/{job_id}/{kind}", given)["request-id"]
        for pause in pauses():
            found = self._ask("GET", f"/jobs/{job_id}/{results}/{quote(request)}")
            if found["status"]["id"] == "COMPLETED":
                break
            self._sleep(pause)
        operation: dict[str, Any] = found["operation"]
        if (cause := operation.get("failure-cause", operation.get("failureCause"))) is not None:
            raise _RefusedError(cause["stack-trace"].removeprefix(f"{cause['class']}: "))
        return operation

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
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
            said = _errors(refused)
            if refused.code == 503 and "Retry-After" in refused.headers:
                raise _UnavailableError(said) from None
            if refused.code in (400, 409, 500) and request.get_method() != "GET":
                raise _RefusedError(said) from None
            is_of_a_job = request.full_url.startswith(f"{self._base}/v1/jobs/")
            kind = UnknownJobError if refused.code == 404 and is_of_a_job else ClusterError
            raise kind(f"{self._base} refuses the request: {said}") from None
        except (URLError, OSError, ValueError) as silent:
            reason = getattr(silent, "reason", silent)
            raise ClusterError(f"no flykka answers at {self._base}: {reason}") from None


class _UnavailableError(Exception):
    """The server cannot answer at this moment, and says that it will."""


class _RefusedError(Exception):
    """The server has said no, or that what was begun has failed."""


@contextmanager
def _refused_as(error: type[FlykkaError]) -> Iterator[None]:
    try:
        yield
    except _RefusedError as refused:
        raise error(str(refused)) from None


def _errors(refused: HTTPError) -> str:
    try:
        return "; ".join(json.loads(refused.read())["errors"]) or refused.reason
    except (ValueError, KeyError, TypeError):
        return f"{refused.code} {refused.reason}"
