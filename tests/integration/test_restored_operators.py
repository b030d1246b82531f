"""Tests that operators lose and duplicate no row after savepoints and failures, even at another parallelism."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import flykka.spark_bridge.operators
from flykka import DataStream, JobClient, StreamExecutionEnvironment
from flykka.messages.attempt.answers import SnapshotWritten
from flykka.spark_bridge.operators.code import OperatorCode
from tests.integration import arrivals, stateful_operators
from tests.integration.test_kill import Moment, kill_at
from tests.integration.test_savepoints import wait_read

# test_upgrades and test_state_from_outside show in less time that operators resume with their state.
pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.long]

OPERATORS = (*stateful_operators.VERBS, *stateful_operators.QUERIES)
FIRST = (
    "windows of rows",
    "windows without keys",
    "a function of windows without keys",
    "windows without keys in SQL",
    "sessions without keys",
    "first rows of all",
)
REST = tuple(name for name in OPERATORS if name not in FIRST)
GROUPS = [REST[place : place + 6] for place in range(0, len(REST), 6)]
"""The operators in groups, because one job of all operators would exceed the time limit of a test on two cores."""

KILL = Moment(name="at a barrier", matches=lambda said: isinstance(said, SnapshotWritten), count=3)
Environments = Callable[..., StreamExecutionEnvironment]
Tables = dict[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """Some operators, and a job with them that reads and writes in a folder."""

    names: tuple[str, ...]
    folder: Path

    def run(
        self, env: StreamExecutionEnvironment, files: range, savepoint: str | None = None, *, interval: str = "10min"
    ) -> str:
        """Read these files, and return a savepoint taken after them."""
        client, _ = self._start(env, files, savepoint, interval)
        wait_read(client, len(files) * stateful_operators.ROWS_PER_FILE)
        return client.stop_with_savepoint()

    def end(
        self, env: StreamExecutionEnvironment, files: range, savepoint: str | None = None, *, interval: str = "10min"
    ) -> Tables:
        """Read these last files, and return the final tables."""
        client, streams = self._start(env, files, savepoint, interval)
        (self.folder / "arrivals" / arrivals.END).touch()
        client.wait(timeout=300)
        output = self.folder / "output"
        return {name: stateful_operators.final_rows(each, output / name) for name, each in streams.items()}

    def _start(
        self, env: StreamExecutionEnvironment, files: range, savepoint: str | None, interval: str
    ) -> tuple[JobClient, dict[str, DataStream]]:
        arriving = self.folder / "arrivals"
        arriving.mkdir(exist_ok=True, parents=True)
        for number in files:
            stateful_operators.write_operator_input(arriving, number)
        env = env if savepoint is None else env.from_savepoint(savepoint)
        return stateful_operators.start_operators(env, arriving, self.folder / "output", self.names, interval)


@pytest.mark.parametrize(
    ("names", "parallelism", "is_killed"),
    [
        pytest.param(FIRST, (1, 2), False, id="first"),
        pytest.param(FIRST, (2, 1), True, id="first, killed"),
        *(pytest.param(names, (1, 2), False, id=names[0]) for names in GROUPS),
        *(pytest.param(names, (2, 1), True, id=f"{names[0]}, killed") for names in GROUPS),
    ],
)
def test_operators_are_restored_as_if_they_had_never_stopped(
    environment: Environments, tmp_path: Path, names: tuple[str, ...], parallelism: tuple[int, ...], is_killed: bool
) -> None:
    stopped, whole = (Operators(names=names, folder=tmp_path / name) for name in ("stopped", "whole"))
    interval = "500ms" if is_killed else "10min"
    savepoint: str | None = None
    for number, subtasks in enumerate(parallelism):
        with environment().set_parallelism(subtasks) as env:
            is_last = number == len(parallelism) - 1
            # The kill occurs only in the last run, which takes no savepoint that could fail.
            kill = kill_at(env, KILL) if is_killed and is_last else None
            if not is_last:
                savepoint = stopped.run(env, range(number, number + 1), savepoint, interval=interval)
            else:
                tables = stopped.end(env, range(number, number + 1), savepoint, interval=interval)
            assert kill is None or kill.done

    expected = whole.end(environment().set_parallelism(1), range(len(parallelism)))
    assert {name: rows for name, rows in tables.items() if rows != expected[name]} == {}
    assert [name for name, rows in tables.items() if not rows] == []


def codes() -> Iterator[type[OperatorCode]]:
    """Yield the classes of all operators, including those of their local parts."""
    package = flykka.spark_bridge.operators
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    waiting = OperatorCode.__subclasses__()
    while waiting:
        code = waiting.pop()
        waiting += code.__subclasses__()
        if not inspect.isabstract(code) and code.__module__.startswith(package.__name__):
            yield code


def test_the_table_contains_every_stateful_operator(environment: Environments, tmp_path: Path) -> None:
    (tmp_path / "arrivals").mkdir()
    stateful_operators.write_operator_input(tmp_path / "arrivals", 0)
    env = environment()
    stateful_operators.define(env, tmp_path / "arrivals", tmp_path, OPERATORS)

    # Names are compared, because a dataclass with slots has two classes.
    defined = {type(each.code).__name__ for each in env.program.transformations}
    assert {each.__name__ for each in codes() if each.state_schema is not OperatorCode.state_schema} <= defined
