"""Tests that the functions of two streams in docs/joins.md are accepted, and do what the page describes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flykka.api.streams.program import Program
from flykka.spark_bridge.functions.function_runner import KeyedFunctionRunner, ProcessFunctionRunner
from flykka.spark_bridge.functions.state_columns import StateColumns
from tests.flykka.programs import bids
from tests.layout.sources import ROOT

PAGE = (ROOT / "docs" / "joins.md").read_text(encoding="utf-8")
TIMES = {"watermark_ms": 0, "processing_time_ms": 0}


def variables_of_program(name: str) -> dict[str, Any]:
    """Run the program of the page that defines a function of this name, and return its variables."""
    names: dict[str, Any] = {}
    (program,) = (each for each in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if f"def {name}(" in each)
    exec(program, names)
    return names


def test_orders_are_converted_to_euros_at_the_latest_rate() -> None:
    runner = KeyedFunctionRunner(variables_of_program("in_euros")["InEuros"]())
    runner.open()
    rows = [{"order_id": 1, "amount": 10.0}, {"rate": 0.5}, {"order_id": 2, "amount": 10.0}]

    emitted = runner.process([0] * 3, ["usd"], rows, None, StateColumns.empty(1, ["rate"]), inputs=[0, 1, 0], **TIMES)

    assert emitted.rows == [{"order_id": 2, "euros": 5.0}]


def test_payments_above_their_countrys_limit_are_found() -> None:
    names = variables_of_program("over_limit")
    runner = ProcessFunctionRunner(names["OverLimit"](), broadcast_states=(names["LIMITS"],))
    runner.open()
    limit = {"country": "de", "limit": 7.0}
    payments = [{"payment_id": n, "country": "de", "amount": float(n)} for n in (7, 8)]

    emitted = runner.process([limit, *payments], None, inputs=[1, 0, 0], **TIMES)

    assert emitted.rows == [{"payment_id": 8, "limit": 7.0}]


@pytest.mark.spark
def test_programs_of_the_page_are_accepted(spark: SparkSession) -> None:
    program = Program()
    rows = bids(spark, program)
    orders = rows.select_expr("auction AS order_id", "channel AS currency", "price AS amount")
    rates = rows.select_expr("channel AS of_currency", "price * 1.0D AS rate")
    payments = rows.select_expr("auction AS payment_id", "channel AS country", "price * 1.0D AS amount")
    limits = rows.select_expr("channel AS country", "price * 1.0D AS limit")

    euros = variables_of_program("in_euros")["in_euros"](orders, rates)
    over = variables_of_program("over_limit")["over_limit"](payments, limits)

    timed = rows.select_expr("auction AS order_id", "channel AS currency", "price AS amount", "at")
    versions = rows.select_expr("channel AS currency", "price * 1.0D AS rate", "at")
    at_the_rate = variables_of_program("at_the_rate")["at_the_rate"](timed, versions)

    assert at_the_rate.columns == ["order_id", "at", "euros"]
    assert (euros.columns, over.columns) == (["order_id", "euros"], ["payment_id", "limit"])
