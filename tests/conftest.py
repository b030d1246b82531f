"""Fixtures of all tests: Hypothesis profiles, the Spark session of the run, and notebook cells."""

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

# `--hypothesis-profile deep` searches deeper; `make test-long` uses it. There is no deadline because timing on two
# busy cores proves nothing about a property. CI draws the same examples every time. Elsewhere the search continues
# from run to run, and a failure prints the line that reproduces it.
settings.register_profile("search", deadline=None, print_blob=True, max_examples=40)
settings.register_profile("ci", parent=settings.get_profile("search"), derandomize=True)
settings.register_profile("deep", parent=settings.get_profile("search"), max_examples=400)
settings.load_profile("ci" if os.environ.get("CI") else "search")

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Options for the JVM of the tests: only the quick compiler, which compiles earlier, and a garbage collector without
threads.

With these options Spark needs half of the CPU time to start, and the tests an eighth less. With its default cache this
compiler would have room for only a minute of test code, and would interpret all further code.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--file-budget", type=float, metavar="SECONDS", help="fail where a file's tests compute longer")


def pytest_configure(config: pytest.Config) -> None:
    """Apply the file budget, if there is one, limit the JVMs, and enable Ctrl-C.

    A program that a shell has started in the background ignores Ctrl-C.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for program_options in ("SPARK_SUBMIT_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS"):
        os.environ.setdefault(program_options, SHORT_LIVED)
    if (seconds := config.getoption("--file-budget")) is not None:
        config.pluginmanager.register(FileBudget(seconds))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of files whose `pytestmark` is excluded by `-m`."""
    excluded = set(re.findall(r"not (\w+)", config.option.markexpr))
    if collection_path.suffix != ".py" or not re.fullmatch(r"not \w+( and not \w+)*", config.option.markexpr):
        return None
    marks = re.search(r"^pytestmark = (\[[^]]*\]|.*)", collection_path.read_text(encoding="utf-8"), re.MULTILINE)
    return True if marks and excluded & set(re.findall(r"pytest\.mark\.(\w+)", marks[1])) else None


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, because they exist until the end of the run."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Puts files that outlive an environment on purpose, such as the flight record of a failed job, into a temporary
    folder.
    """
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("temporary"))
    yield
    tempfile.tempdir = before


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache except for Spark's classes, so that tests neither write the user's cache nor read plans in it."""
    folder = tmp_path_factory.mktemp("cache")
    for archive in cache_folder().glob("classes-*.jsa"):
        (folder / archive.name).symlink_to(archive)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def pid_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A separate PID folder for this worker, because commands list all jobs of the user, including those of other
    workers.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("jobs", numbered=True)))
        yield


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks the passwords of a test only in that test, because they may be common words."""
    monkeypatch.setattr(_secrets, "_values", {})


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The product's own session, shared by all Spark tests, with two cores and few shuffle partitions."""
    from flykka.spark_bridge.session.session import spark_session

    # Plans are interpreted, because for a few rows this is faster than compilation, which took 14 % of the CPU time
    # of such tests. Jobs that tests start in separate processes are compiled as users' jobs are.
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
    """An environment over the test run's session; marks set its size and checkpointing."""
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
    """Runs a notebook cell in the namespace that all cells share, and returns that namespace."""
    notebook = ModuleType("notebook_of_the_test")
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)

    def execute(cell: str) -> ModuleType:
        exec(compile(cell, "<cell>", "exec"), notebook.__dict__)
        return notebook

    return execute
