"""Validation of functions that Spark's Python workers call; errors name the line of the call."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flykka.errors import ProgramError, StreamTypeError
from flykka.spark_bridge.functions.process_function import ProcessFunction
from tests.flykka.programs import bids

pytestmark = pytest.mark.spark


class Holding(ProcessFunction):
    def __init__(self, session: SparkSession) -> None:
        super().__init__()
        self.session = session

    def process_element(self, row: dict[str, Any], ctx: Any) -> None: ...


def test_a_function_with_driver_objects_is_refused_by_name(spark: SparkSession) -> None:
    rows = bids(spark)

    with pytest.raises(
        StreamTypeError, match="workers: its attribute 'session' is a SparkSession, which exists only in"
    ):
        rows.process(Holding(spark), "n bigint")
    with pytest.raises(ProgramError, match=r"takes a ProcessFunction, .*, not its class Holding$"):
        rows.process(Holding, "n bigint")  # type: ignore[arg-type]


def test_a_method_that_reads_a_program_variable_is_refused_by_name(spark: SparkSession) -> None:
    lock = threading.Lock()

    class Locking(ProcessFunction):
        def __init__(self) -> None:
            super().__init__()

        def process_element(self, row: dict[str, Any], ctx: Any) -> None:
            with lock:
                pass

    with pytest.raises(
        StreamTypeError, match="workers: the variable 'lock', which it reads, is a lock, which exists only in"
    ):
        bids(spark).process(Locking(), "n bigint")


@pytest.mark.parametrize("verb", ["map", "flat_map", "map_in_arrow", "map_in_pandas"])
def test_a_plain_function_that_cannot_be_pickled_is_refused_with_its_variable(spark: SparkSession, verb: str) -> None:
    lock = threading.Lock()

    with pytest.raises(StreamTypeError, match="the variable 'lock', which it reads, is a lock, which"):
        getattr(bids(spark), verb)(lambda rows: (lock, rows), "n long")


def test_a_filter_that_cannot_be_pickled_is_refused(spark: SparkSession) -> None:
    lock = threading.Lock()

    with pytest.raises(StreamTypeError, match="the variable 'lock', which it reads"):
        bids(spark).filter(lambda row: lock)
