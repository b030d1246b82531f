"""The page: its files, how they are served, and that they load nothing from other servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import flykka.rest
from flykka.messages.wire.ids import ExecutionAttemptId
from flykka.rest.settings import RestSettings
from flykka.spark_bridge.attempt.attempt_work import AttemptWork, PieceOfWork
from tests.flykka.rest.conftest import JOB, Serve, Served

pytestmark = pytest.mark.slow

FOLDER = Path(flykka.rest.__file__).parent / "page"
FILES = sorted(file.name for file in FOLDER.iterdir())
DATA = ("/events", f"/jobs/{JOB}/events", "/jobs/overview", "/recorder/trace", f"/jobs/{JOB}/diagnosis")
TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}


def test_the_root_serves_the_page_under_a_strict_content_policy(served: Served) -> None:
    answer = served.http.get("/")

    assert (answer.status_code, answer.content) == (200, (FOLDER / "index.html").read_bytes())
    assert answer.headers["content-type"] == "text/html; charset=UTF-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_each_file_has_its_type_and_is_revalidated_by_etag(served: Served) -> None:
    for name in FILES:
        first = served.http.get(f"/page/{name}")
        again = served.http.get(f"/page/{name}", headers={"If-None-Match": first.headers["etag"]})

        assert first.content == (FOLDER / name).read_bytes(), name
        assert first.headers["content-type"].partition(";")[0] == TYPES[Path(name).suffix]
        assert first.headers["cache-control"] == "no-cache"
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2fapp.py", "%2e%2e/app.py", "__init__.py", ""])
def test_other_files_are_not_served(served: Served, name: str) -> None:
    assert served.http.get(f"/page/{name}").status_code == 404


def test_the_page_needs_no_token_but_its_data_does(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("token-of-the-tests")
    served = serve(RestSettings(token_file=str(file)))

    statuses = {path: served.ask_without_token("GET", path).status_code for path in ("/", "/page/main.js")}
    refused = {path: served.ask_without_token("GET", path).status_code for path in DATA}

    assert set(statuses.values()) == {200}
    assert set(refused.values()) == {401}


def test_every_referenced_file_exists() -> None:
    named = set()
    for name in FILES:
        text = (FOLDER / name).read_text()
        named |= set(re.findall(r'"/page/([\w.]+)"', text)) | set(re.findall(r'from "\./([\w.]+)"', text))

    assert named <= set(FILES)
    assert {name for name in FILES if name.endswith(".js")} <= named


@pytest.mark.parametrize("name", FILES)
def test_no_file_turns_data_into_markup_or_contacts_another_server(name: str) -> None:
    text = (FOLDER / name).read_text()

    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.search(r'<[^>]* (style|on\w+)="', text)


def test_the_work_of_a_subtask_is_listed_with_its_spark_jobs(serve: Serve) -> None:
    def last_work(job_id: str, vertex_id: str, subtask: int) -> AttemptWork | None:
        stage = PieceOfWork(
            what="stage 3 of 'sink'",
            age_ms=0,
            took_ms=20,
            rows_in=5,
            rows_out=4,
            has_failed=False,
            spark_jobs=(7, 8),
        )
        known = (job_id, vertex_id, subtask) == (JOB, "sink", 1)
        return AttemptWork(attempt=ExecutionAttemptId("a"), pieces=(stage,), spark_ui=None) if known else None

    served = serve(last_work=last_work)
    answer = served.http.get(f"/jobs/{JOB}/vertices/sink/subtasks/1/work").json()

    begun = answer["work"][0].pop("begun")
    assert begun > 0
    assert answer == {
        "attempt": "a",
        "sparkUi": None,
        "work": [
            {"what": "stage 3 of 'sink'", "took": 20, "rowsIn": 5, "rowsOut": 4, "failed": False, "sparkJobs": [7, 8]}
        ],
    }
    for other in ("sink/subtasks/0", "sink/subtasks/2", "nothing/subtasks/0"):
        assert served.http.get(f"/jobs/{JOB}/vertices/{other}/work").status_code == 404


def test_attempts_of_a_vertex_are_listed_in_start_order(served: Served) -> None:
    answer = served.http.get(f"/jobs/{JOB}/vertices/sink/attempts").json()

    assert (answer["id"], answer["total"]) == ("sink", len(answer["attempts"]))
    assert [each["begun"] for each in answer["attempts"]] == sorted(each["begun"] for each in answer["attempts"])
    assert served.http.get(f"/jobs/{JOB}/vertices/nothing/attempts").status_code == 404
