"""Times checkpoints of a job that is observed in every other round, and responses about a job of ten thousand subtasks.

`python -m benchmarks.observability.control_plane TASKS CHECKPOINTS ROUNDS` prints the milliseconds of a checkpoint in
each round, and those of all responses.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from contextlib import closing, nullcontext
from functools import partial
from statistics import mean
from urllib.request import urlopen

from benchmarks.checkpoints.measuring import RunningJob, running_job
from benchmarks.checkpoints.topologies import topology_named
from benchmarks.observability.observers import watched
from flykka.rest.server import RestServer
from flykka.rest.settings import RestSettings

ANSWERS = 20

MANY = "10000"


def main(tasks: str, checkpoints: str, rounds: str) -> None:
    # The watchdog would report turns that start or end thousands of tasks.
    logging.getLogger("flykka.runtime").setLevel(logging.CRITICAL)
    say = partial(print, file=sys.stderr, flush=True)
    with running_job(topology_named(tasks), say) as job, closing(RestServer(RestSettings())) as server:
        server.start(job.cluster)
        times: dict[str, list[float]] = {"alone": [], "watched": []}
        for number in range(int(rounds)):
            for name in ("alone", "watched") if number % 2 == 0 else ("watched", "alone"):
                with watched(server.address) if name == "watched" else nullcontext():
                    times[name].append(mean(job.checkpoint().wall_ms for _ in range(int(checkpoints))))
    with running_job(topology_named(MANY), say) as job, closing(RestServer(RestSettings())) as server:
        server.start(job.cluster)
        answers = {name: _answers(f"{server.address}{path}") for name, path in _paths(job).items()}
    print(json.dumps({**times, "answers": answers}))


def _paths(job: RunningJob) -> dict[str, str]:
    of_job = f"/jobs/{job.client.job_id}"
    vertex = job.client.details_with(0).vertices[0].vertex_id
    return {
        "/overview": "/overview",
        "/jobs/overview": "/jobs/overview",
        "/jobs/:jobid": of_job,
        "/jobs/:jobid/vertices/:vertexid": f"{of_job}/vertices/{vertex}",
        "/metrics": "/metrics",
    }


def _answers(url: str) -> list[float]:
    times = []
    for _ in range(ANSWERS):
        begun = time.perf_counter()
        with urlopen(url, timeout=120) as answer:
            answer.read()
        times.append((time.perf_counter() - begun) * 1_000)
    return times


if __name__ == "__main__":
    main(*sys.argv[1:])
