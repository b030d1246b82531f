"""Apache Flink's dashboard is served from its package, on top of the REST interface."""

from __future__ import annotations

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from flykka.rest.app import FlinkDashboard
from tests.flykka.rest.conftest import JOB, Serve, Served

pytestmark = pytest.mark.slow


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is built like the released one."""
    lib = tmp_path / "site" / "pyflink" / "lib"
    lib.mkdir(parents=True)
    # An installed package would take precedence over a folder without `__init__.py`.
    (lib.parent / "__init__.py").touch()
    with ZipFile(lib / "flink-dist-2.3.0.jar", "w") as jar:
        jar.writestr("web/index.html", "<title>Apache Flink Web Dashboard</title>")
        jar.writestr("web/main.1.js", "start()")
        jar.writestr("META-INF/secret", "not of the dashboard")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "pyflink", raising=False)


@pytest.mark.usefixtures("package")
def test_dashboard_files_are_served_and_their_requests_answered(serve: Serve) -> None:
    http = serve().http

    page, script = http.get("/flink/"), http.get("/flink/main.1.js")

    assert http.get("/flink").headers["location"] == "/flink/"
    assert "Apache Flink Web Dashboard" in page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert script.headers["content-type"].startswith("text/javascript")
    assert http.get("/flink/jobs/overview").json()["jobs"][0]["jid"] == JOB
    assert http.get(f"/flink/jobs/{JOB}/yarn-cancel", headers={"sec-fetch-site": "cross-site"}).status_code == 403


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("path", ["nothing.js", "..%2fMETA-INF/secret", "../META-INF/secret", "%2e%2e/META-INF/secret"])
def test_other_files_of_the_package_are_not_served(serve: Serve, path: str) -> None:
    assert serve().http.get(f"/flink/{path}").status_code == 404


def test_without_the_package_there_is_no_dashboard(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flykka.rest.app.find_spec", lambda name: None)

    assert FlinkDashboard.find() is None
