"""The recorder of a cluster: its state, its download as a trace, and the error if there is no recorder."""

from __future__ import annotations

from pathlib import Path

import pytest

from flykka.rest.errors import RestError
from flykka.rest.handlers.recorder import STORY_SECONDS, Recording
from flykka.runtime.system import ActorSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.flight_recorder import FlightRecorder
from flykka.runtime.trace.record.recorder import TraceRecorder
from tests.flykka.rest.conftest import JOB, JOB_PATH, Served
from tests.flykka.traces.recording import BEGIN_MS, coordinator, play_into, record_checkpoint
from tests.flykka.traces.recording import Recording as Turns

pytestmark = pytest.mark.slow


def test_the_flight_recorder_reports_its_contents_and_returns_them_as_a_trace(served: Served, tmp_path: Path) -> None:
    held = served.http.get("/recorder").json()
    answer = served.http.get("/recorder/trace")

    assert (held["kind"], held["limit"], held["notKept"]) == ("memory", 50_000, 0)
    assert held["begins"] <= held["ends"]
    assert answer.headers["content-disposition"] == 'attachment; filename="flight-record.trace"'
    assert int(answer.headers["content-length"]) == len(answer.content)
    file = tmp_path / "given.trace"
    file.write_bytes(answer.content)
    trace = TraceReader.open(file)
    assert sum(1 for _ in trace.records()) >= held["records"] > 0
    assert trace.truncated is None


def test_unrecorded_jobs_and_checkpoints_have_no_story(served: Served) -> None:
    answer = served.http.get(f"{JOB_PATH}/checkpoints/details/7/story")

    assert answer.status_code == 404
    assert answer.json()["errors"] == [f"checkpoint 7 of job {JOB} is not in the history"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"/jobs/{'f' * 32}/checkpoints/details/1/story", f"Job {'f' * 32} not found"),
        (f"{JOB_PATH}/checkpoints/details/7/story", f"checkpoint 7 of job {JOB} is not in the history"),
    ],
)
def test_an_unknown_checkpoint_is_refused_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch, path: str, text: str
) -> None:
    def dump(*arguments: object) -> None:
        raise AssertionError("the recorder was asked")

    monkeypatch.setattr(FlightRecorder, "dump", dump)

    for _ in range(2):
        answer = served.http.get(path)
        assert (answer.status_code, answer.json()["errors"]) == (404, [text])


def test_a_story_is_refreshed_after_new_records_and_some_seconds(tmp_path: Path) -> None:
    turns, seconds, recorder = Turns(tmp_path / "turns.trace"), 0.0, FlightRecorder()
    record_checkpoint(turns, 1)
    recorder.open(system="recorded", seed=1)
    play_into(recorder, turns.closed())
    recording = Recording(recorder, lambda: seconds)
    assert recording.cached_story(JOB, 1) is None

    story = recording.story(JOB, 1)

    seconds = 2 * STORY_SECONDS
    assert recording.cached_story(JOB, 1) is story, "nothing was recorded since"
    assert recording.cached_story(JOB, 2) is None
    recorder.killed(99, BEGIN_MS, coordinator())
    assert recording.cached_story(JOB, 1) is None
    again = recording.story(JOB, 1)
    recorder.killed(100, BEGIN_MS, coordinator())
    assert recording.cached_story(JOB, 1) is again, "it was made just now"


def test_a_download_leaves_no_file(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    assert served.http.get("/recorder/trace").status_code == 200
    assert served.http.get(f"{JOB_PATH}/checkpoints/details/7/story").status_code == 404

    assert not list(tmp_path.glob("flykka-*/tmp-*"))


def test_a_recording_file_is_named_and_can_be_downloaded_while_written(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path / "run.trace")
    with ActorSystem("recorded", recorder=recorder):
        recording = Recording(recorder)
        with recording.trace() as file:
            content = file.read()

        held = recording.held()

    assert (held["kind"], held["path"]) == ("file", str(tmp_path / "run.trace"))
    assert held["bytes"] >= len(content) > 0


def test_a_cluster_without_a_recorder_reports_that() -> None:
    recording = Recording(None)

    assert recording.held() == {"kind": "none"}
    for ask in (recording.trace, lambda: recording.story(JOB, 1)):
        with pytest.raises(RestError, match="records nothing") as refused:
            ask()
        assert refused.value.status == 404


def test_a_recorder_whose_system_has_ended_is_unavailable() -> None:
    recorder = FlightRecorder()
    with ActorSystem("ended", recorder=recorder):
        pass
    recording = Recording(recorder)

    for ask in (recording.held, recording.trace):
        with pytest.raises(RestError, match="has ended") as refused:
            ask()
        assert refused.value.status == 503
