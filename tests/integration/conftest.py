"""Fixtures of tests that run complete clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flykka import StreamExecutionEnvironment
from tests.integration import sales


@pytest.fixture(scope="session")
def sales_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sales.write_sales(tmp_path_factory.mktemp("input") / "sales")


@pytest.fixture(scope="session")
def few_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sales.write_sales(tmp_path_factory.mktemp("input") / "few-files", files=4)


@pytest.fixture(scope="session")
def few_sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sales with the usual number of files but fewer rows, for programs that call Python for each row."""
    return sales.write_sales(tmp_path_factory.mktemp("input") / "few-sales", rows=300)


@pytest.fixture
def environment(spark: SparkSession) -> Iterator[Callable[..., StreamExecutionEnvironment]]:
    """Creates environments of two TaskManagers with two slots each, and closes them."""
    environments: list[StreamExecutionEnvironment] = []

    def make(record: str | None = None) -> StreamExecutionEnvironment:
        env = StreamExecutionEnvironment.get_execution_environment(
            task_managers=2, slots_per_task_manager=2, record=record
        )
        environments.append(env)
        return env

    yield make
    for env in environments:
        env.close()
