"""A cached plan is used only as long as its inputs are unchanged."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flykka.api.launch import LaunchOptions
from flykka.cli.dry_run.app_inputs import AppInputs
from flykka.cli.dry_run.first_job import PlanCache
from flykka.cli.main import main
from flykka.cli.run.app import App
from flykka.messages.graph.job_graph import JobGraph
from flykka.spark_bridge.session.cache_folder import FOLDER_VARIABLE
from flykka.views.plan.program_plan import ProgramPlan, program_plan
from tests.flykka.views.plan.plans import graphs

pytestmark = pytest.mark.slow

APP = """
import os
from pathlib import Path
import limits_of_the_app
TABLES = os.listdir("tables")
COLUMNS = Path("columns.txt").read_text()
LIMIT = os.environ.get("LIMIT_OF_THE_APP")
"""
OPTIONS = LaunchOptions()


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    """An app that reads a module, a file, a folder and an environment variable."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    folder = tmp_path / "app"
    (folder / "tables").mkdir(parents=True)
    (folder / "app.py").write_text(APP)
    (folder / "limits_of_the_app.py").write_text("limit = 1")
    (folder / "columns.txt").write_text("a, b")
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "limits_of_the_app", raising=False)
    importlib.invalidate_caches()
    return App("app.py", ["--of", "the app"])


def plan_and_graph() -> tuple[ProgramPlan, JobGraph]:
    stream_graph, job_graph = graphs()
    return program_plan(stream_graph, job_graph), job_graph


def record_inputs(app: App, options: LaunchOptions = OPTIONS) -> bool:
    """Return whether the app's inputs could be read, so that its plan is cached."""
    with AppInputs(app.path, time.time_ns()) as inputs:
        app.run()
    if (read := inputs.read()) is None:
        return False
    PlanCache(app, options).store(*plan_and_graph(), read)
    return True


def test_a_cached_plan_is_returned_unchanged(app: App) -> None:
    record_inputs(app)

    found = PlanCache(app, OPTIONS).find()

    assert found is not None
    assert (found.plan, found.job_graph) == plan_and_graph()
    assert [Path(each.path).name for each in found.inputs if str(Path.cwd()) in each.path] == [
        "app.py",
        "columns.txt",
        "limits_of_the_app.py",
        "tables",
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda: Path("app.py").write_text(APP + "# edited"),
        lambda: Path("limits_of_the_app.py").write_text("limit = 2"),
        lambda: Path("limits_of_the_app.py").unlink(),
        lambda: Path("columns.txt").write_text("a, c"),
        lambda: Path("tables/orders.csv").touch(),
    ],
    ids=["app", "module", "module gone", "file", "folder"],
)
def test_a_changed_input_of_the_app_invalidates_the_plan(change: Callable[[], object], app: App) -> None:
    record_inputs(app)

    change()

    assert PlanCache(app, OPTIONS).find() is None


@pytest.mark.parametrize(
    "name", ["LIMIT_OF_" + "THE_APP", pytest.param("SPARK_HOME_OF_" + "ANOTHER", marks=pytest.mark.long)]
)
def test_a_changed_environment_variable_invalidates_the_plan(
    name: str, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_inputs(app)

    monkeypatch.setenv(name, "5")

    assert PlanCache(app, OPTIONS).find() is None


def test_a_variable_that_the_app_does_not_use_is_ignored(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    record_inputs(app)

    # The name is concatenated, because a variable counts as used if its name occurs in a loaded module, such as this
    # file.
    monkeypatch.setenv("OF_" + "SOMEBODY_ELSE", "5")

    assert PlanCache(app, OPTIONS).find() is not None


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], OPTIONS),
        pytest.param(["--of", "the app"], LaunchOptions(values={"parallelism": 2}), marks=pytest.mark.long),
        (["--of", "the app"], LaunchOptions(values={"master": "local[3]"})),
    ],
)
def test_other_arguments_and_options_have_separate_plans(
    arguments: list[str], options: LaunchOptions, app: App
) -> None:
    record_inputs(app)

    assert PlanCache(App(app.path, arguments), options).find() is None


def test_an_app_that_changes_during_inspection_is_not_cached(app: App) -> None:
    Path("app.py").write_text(APP + "Path('columns.txt').write_text('c')")

    assert not record_inputs(app)


def test_a_damaged_plan_is_ignored(app: App, tmp_path: Path) -> None:
    record_inputs(app)
    [kept] = (tmp_path / "cache").rglob("*.plan")

    kept.write_bytes(kept.read_bytes()[:-1])

    assert PlanCache(app, OPTIONS).find() is None


def test_an_unwritable_cache_folder_is_ignored(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(Path("app.py").absolute()))

    assert record_inputs(app)
    assert PlanCache(app, OPTIONS).find() is None


def test_a_cached_plan_is_drawn_without_running_the_app(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    Path("app.py").write_text("import sys; sys.exit('the app was run')")
    PlanCache(App("app.py"), OPTIONS).store(*plan_and_graph(), ())

    drawn = main(["plan", "app.py"])

    output = capsys.readouterr()
    assert drawn == 0
    assert "sums of <orders>" in output.out
    assert output.err.startswith("flykka: app.py was cached at ")

    looked_again = main(["plan", "app.py", "--no-cache"])

    assert looked_again == 1
    assert "the app was run" in capsys.readouterr().err
