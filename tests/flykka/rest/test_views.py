"""Every view of the page in a browser, with a running job: its content, and that no view raises an error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import FileSink, FileSource, StreamExecutionEnvironment, WatermarkStrategy
from flykka.client.job_client import JobClient
from flykka.runtime.trace.file.reader import TraceReader
from tests.flykka.rest.browser import CHROMIUM, Page
from tests.integration.test_continuing import wait_checkpoint

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]

_OVERLAP = """(() => {
  const boxes = [...document.querySelectorAll('.vertex')].map((card) => card.getBoundingClientRect());
  return boxes.some((a, at) => boxes.slice(at + 1).some((b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
})()"""

Watched = tuple[Page, JobClient]
"""A page with the list of jobs, and the listed job."""


@pytest.fixture
def watched(spark: SparkSession, tmp_path: Path) -> Iterator[Watched]:
    spark.range(50).write.json(str(tmp_path / "in"))
    with StreamExecutionEnvironment.get_execution_environment() as env:
        env.enable_rest().set_default_savepoint_directory(tmp_path / "savepoints")
        env.enable_checkpointing("500ms").set_checkpoint_dir(str(tmp_path / "checkpoints"))
        source = FileSource.json(tmp_path / "in", schema="id long").monitor_continuously("100ms", until=None)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), uid="numbers")
        for name in ("first", "second"):
            numbers.sink_to(FileSink.parquet(tmp_path / name)).uid(name).set_parallelism(2)
        job = env.execute_async("numbers")
        wait_checkpoint(job)
        assert env.rest_address is not None
        page = Page(tmp_path / "profile")
        page.open(f"{env.rest_address}/#token={env.rest_token}")
        yield page, job
        page.close()


def test_each_view_shows_the_facts_of_a_running_job(watched: Watched, tmp_path: Path) -> None:
    page, job = watched

    page.wait_text("slots free")
    page.click("numbers")
    page.wait_text("2 running")
    cards = page.run("[...document.querySelectorAll('.vertex')].map((card) => card.getAttribute('aria-label'))")
    assert cards == [f"Vertex {vertex.name}" for vertex in job.details.vertices]
    assert page.run("document.querySelectorAll('path.edge').length") == 2
    assert not page.run(_OVERLAP)

    page.click("Ask why")
    page.wait_text("Job 'numbers'", ".answer")
    page.click("Source")
    assert page.run("document.activeElement.id") == f"vertex-{job.details.vertices[0].vertex_id}"

    page.wait("document.querySelectorAll('.checkpoint.good').length > 2")
    page.click("Show its vertices")
    page.wait_text("Acknowledged", ".nested")
    page.wait_text("the slowest first", ".nested h4")
    page.wait_text("Start delay", ".nested")

    page.run("document.querySelector('.attempt').dispatchEvent(new MouseEvent('click'))")
    page.wait_text("stage 0 of", "#work")
    stages = page.run("[...document.querySelectorAll('#work tbody tr')].map((row) => row.innerText.split('\\t'))")
    assert sum(int(rows_in) for _, _, _, rows_in, _, _ in stages if rows_in.isdecimal()) == 50

    page.click("Story")
    page.wait_text("is triggered")
    page.wait("!!document.querySelector('.phase')")
    assert page.text("#trail").startswith("Jobs\n/\nnumbers")

    page.click("Cluster", "header")
    page.wait_text("Heap of Spark's JVM")
    page.wait_text("task-manager-1")
    page.click("Look")
    page.wait_text("MainThread")

    page.click("Recorder", "header")
    page.wait_text("turns, of 50,000 at most")
    page.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.click("Download the trace")
    assert _downloaded_trace(tmp_path / "flight-record.trace").truncated is None

    assert page.errors == []


def test_the_page_asks_for_a_missing_token_and_continues(watched: Watched) -> None:
    page, job = watched
    page.wait_text("slots free")
    assert page.run("location.hash + sessionStorage.getItem('flykka-token').length") == "#/32"
    token = page.run("sessionStorage.getItem('flykka-token')")
    page.run("sessionStorage.clear()")

    page.click("numbers")
    page.click("Savepoint")
    page.click("Take a savepoint", "dialog")
    page.wait_text("`flykka token` prints it", "dialog")
    page.run(f"document.getElementById('token').value = '{token}'")
    page.click("Use it", "dialog")
    page.wait_text("The savepoint is at", "#notices")

    assert not job.done()
    assert all("401" in error for error in page.errors)


def test_a_job_stopped_from_the_page_stays_listed(watched: Watched) -> None:
    page, job = watched

    page.click("numbers")
    page.click("Stop")
    page.click("Stop the job", "dialog")
    page.wait_text("The job has stopped; its savepoint is at", "#notices")
    page.wait_text("Stopped", "h1")

    assert job.details.kept_checkpoint is not None
    assert job.details.kept_checkpoint in page.text("#notices")
    assert page.run("[...document.querySelectorAll('.head button')].every((button) => button.disabled)")
    assert page.errors == []


def test_the_page_reports_a_silent_server_and_continues_once_it_answers(watched: Watched) -> None:
    page, _ = watched
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.send("Network.enable")
    page.wait_text("live", "#link")

    page.send("Network.emulateNetworkConditions", offline=True, **network)
    page.click("numbers")
    page.wait_text("no connection since", "#link")
    before = page.text()
    page.send("Network.emulateNetworkConditions", offline=False, **network)
    page.wait_text("live", "#link")

    assert before == "Asking …"
    page.wait_text("Attempts")


def _downloaded_trace(file: Path) -> TraceReader:
    deadline = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < deadline, "the browser has kept no trace"
        time.sleep(0.05)
    return TraceReader.open(file)
