"""What every test shares: how Hypothesis searches, the one Spark session of the run, and a notebook's cells."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from flykka.client.running_jobs import FOLDER_VARIABLE
from flykka.runtime.secrets import _secrets
from flykka.spark_bridge.session.cache_folder import FOLDER_VARIABLE as CACHE_VARIABLE
from flykka.spark_bridge.session.cache_folder import cache_folder
from tests.budget import FileBudget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flykka import StreamExecutionEnvironment

# Laws are searched deeper with `--hypothesis-profile deep`, as `make test-long` does.
# No deadline: two busy cores say nothing about a law. CI draws the same examples every time; elsewhere the search goes
# on from run to run, and a failure prints the line that repeats it.
settings.register_profile("search", deadline=None, print_blob=True, max_examples=40)
settings.register_profile("ci", parent=settings.get_profile("search"), derandomize=True)
settings.register_profile("deep", parent=settings.get_profile("search"), max_examples=400)
settings.load_profile("ci" if os.environ.get("CI") else "search")

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""The JVM's quick compiler alone, which compiles ten times sooner, and a garbage collector without threads.

Spark starts with half of the computing, and tests take an eighth less. Alone the compiler would have room for the code
of a minute of tests, and interpret the rest.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--file-budget`."""
    parser.addoption("--file-budget", type=float, metavar="SECONDS", help="fail where a file's tests compute longer")


def pytest_configure(config: pytest.Config) -> None:
    """Hold files to their budget, if there is one, and JVMs to little computing; have Ctrl-C work.

    Shells let programs that run in their background ignore it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for program_options in ("SPARK_SUBMIT_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS"):
        os.environ.setdefault(program_options, SHORT_LIVED)
    if (seconds := config.getoption("--file-budget")) is not None:
        config.pluginmanager.register(FileBudget(seconds))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files whose `pytestmark` is excluded by `-m`."""
    excluded = set(re.findall(r"not (\w+)", config.option.markexpr))
    if collection_path.suffix != ".py" or not re.fullmatch(r"not \w+( and not \w+)*", config.option.markexpr):
        return None
    marks = re.search(r"^pytestmark = (\[[^]]*\]|.*)", collection_path.read_text(encoding="utf-8"), re.MULTILINE)
    return True if marks and excluded & set(re.findall(r"pytest\.mark\.(\w+)", marks[1])) else None


def pytest_collection_finish() -> None:
    """What was collected stays until the end: no search for garbage looks at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What outlives an environment on purpose, such as the flight record of a failed job, ends with the tests."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("temporary"))
    yield
    tempfile.tempdir = before


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache but for Spark's classes: nothing is left in the user's own, and no plan is found there."""
    folder = tmp_path_factory.mktemp("cache")
    for archive in cache_folder().glob("classes-*.jsa"):
        (folder / archive.name).symlink_to(archive)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def pid_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands find the jobs of all of the user's processes: those of other workers, and of the user, are left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("jobs", numbered=True)))
        yield


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords of a test are masked in no other one: they may be words."""
    monkeypatch.setattr(_secrets, "_values", {})


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that all Spark tests share: the product's own, with two cores and few shuffle partitions."""
    from flykka.spark_bridge.session.session import spark_session

    # Spark interprets its plans: to compile one takes longer than to interpret it for a few rows, and was 14 % of the
    # computing of such tests. Jobs that tests start in processes of their own compile as those of users do.
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    session = spark_session("local[2]", "flykka tests", settings)
    yield session
    session.stop()


@pytest.fixture
def env(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[StreamExecutionEnvironment]:
    """An environment over the session of the test run, of the size and with the checkpoints that marks specify."""
    from flykka import StreamExecutionEnvironment

    cluster, checkpoints = map(request.node.get_closest_marker, ("cluster", "checkpoints"))
    with StreamExecutionEnvironment.get_execution_environment(**(cluster.kwargs if cluster else {})) as env:
        if checkpoints is not None:
            env.set_checkpoint_dir(str(tmp_path / "checkpoints"))
            if checkpoints.args:
                env.enable_checkpointing(*checkpoints.args, **checkpoints.kwargs)
        yield env


@pytest.fixture
def run_cell(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Runs a notebook's cell in the one namespace that all cells share; returns that."""
    notebook = ModuleType("notebook_of_the_test")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)

    def execute(cell: str) -> ModuleType:
        exec(compile(cell, "<cell>", "exec"), notebook.__dict__)
        return notebook

    return execute
