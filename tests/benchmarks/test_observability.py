"""Tests a short run of the observability benchmark, and that its figures are complete."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest

from benchmarks.checkpoints.measuring import running_job
from benchmarks.checkpoints.topologies import topology_named
from benchmarks.observability.__main__ import as_json, as_table
from benchmarks.observability.observers import watched
from flykka.rest.server import RestServer
from flykka.rest.settings import RestSettings


def test_ratios_compare_speeds() -> None:
    stream = {"alone": [2.0, 2.0, 9.0], "watched": [2.5, 2.5, 1.0]}
    checkpoints = {"alone": [1.0, 3.0, 7.0], "watched": [2.0, 6.0, 8.0]}
    answers = {"/overview": [3.0, 4.0, 40.0]}

    report = as_json(stream, {**checkpoints, "answers": answers})

    assert report == {"streaming_ratio": 0.8, "checkpoint_ratio": 0.5, "overview_ms_at_10000_subtasks": 4.0}
    assert "| `/overview` | 4 ms | 40 ms |" in as_table(report, answers)


@pytest.mark.slow
@pytest.mark.long
def test_a_job_is_observed_by_the_dashboard_and_the_scraper(capfd: pytest.CaptureFixture[str]) -> None:
    job = running_job(topology_named("4"), partial(str.strip))
    with job as running, closing(RestServer(RestSettings())) as server:
        server.start(running.cluster)
        with watched(server.address):
            assert running.checkpoint().wall_ms > 0

    with pytest.raises(RuntimeError, match="an observer had no answer"), watched(server.address):
        pytest.fail("nobody is there")
    assert "Connection refused" in capfd.readouterr().err
