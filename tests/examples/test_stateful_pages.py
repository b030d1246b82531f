"""Tests that the programs of docs/keyed_state.md and of the page for users of Structured Streaming or PyFlink run."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from flykka import FileSink, StreamExecutionEnvironment, WatermarkStrategy
from tests.layout.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def snippets(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M | re.S)


STATE = snippets("keyed_state.md")
STATEFUL_PROCESSOR, ITS_PORT, _, PORT_FROM_PYFLINK = snippets("coming_from_structured_streaming_and_pyflink.md")


def run_script(program: str) -> dict[str, Any]:
    defined: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(program, defined)
    finally:
        if "env" in defined:
            defined["env"].close()
    return defined


def write_json_rows(folder: str, name: str, *rows: Mapping[str, object]) -> None:
    Path(folder).mkdir(exist_ok=True)
    Path(folder, name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def json_rows(folder: str) -> list[dict[str, Any]]:
    lines = sorted(line for file in Path(folder).glob("*.json") for line in file.read_text().splitlines())
    return [json.loads(line) for line in lines]


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.long
def test_the_third_hot_reading_raises_an_alarm(spark: SparkSession, working_folder: Path) -> None:
    write_json_rows(
        "readings", "1.json", *({"sensor": each, "celsius": 93.0} for each in ("boiler", "cellar", "boiler"))
    )
    write_json_rows("readings", "2.json", {"sensor": "boiler", "celsius": 95.2}, {"sensor": "cellar", "celsius": 14.1})
    Path("readings", "_SUCCESS").touch()

    run_script(STATE[0])

    assert json_rows("alarms") == [{"sensor": "boiler", "hot_readings": 3}]


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
def test_functions_of_the_state_page_emit_the_promised_rows(spark: SparkSession, working_folder: Path) -> None:
    defined = run_script("\n".join(STATE[1:]))
    visits = [("ann", "/", 10.0), ("ann", "/shop", 30.0), ("ann", "/", 20.0)]
    times = [(1, datetime(2026, 1, 1, 10, minute, tzinfo=UTC)) for minute in (0, 4, 12)]

    with StreamExecutionEnvironment.get_execution_environment() as env:
        seen = env.from_dataframe(spark.createDataFrame(visits, "user string, page string, seconds double"))
        profiles = "user string, pages int, longest double, mean double"
        seen.key_by("user").process(defined["Profile"](), profiles).sink_to(FileSink.json("profiles"))
        in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
        readings = env.from_dataframe(spark.createDataFrame(times, "sensor int, at timestamp"), in_order)
        silent = readings.key_by("sensor").process(defined["SilenceAlarm"](), "sensor int, silent_since timestamp")
        silent.select_expr("sensor", "minute(silent_since) AS minute").sink_to(FileSink.json("silent"))
        lines = env.from_dataframe(spark.createDataFrame([("2.5",), ("x",)], "line string"))
        amounts, broken = defined["parsed"](lines)
        amounts.sink_to(FileSink.json("amounts"))
        broken.sink_to(FileSink.json("broken"))
        env.execute()

    assert json_rows("profiles")[-1] == {"user": "ann", "pages": 2, "longest": 30.0, "mean": 20.0}
    assert json_rows("silent") == [{"sensor": 1, "minute": 12}, {"sensor": 1, "minute": 4}]
    assert json_rows("amounts") == [{"amount": 2.5}]
    assert json_rows("broken") == [{"line": "x", "why": "could not convert string to float: 'x'"}]


EVENTS = [(1, "created", "10:00"), (2, "created", "10:05"), (1, "paid", "10:20"), (2, "paid", "10:50")]


def test_the_stateful_processor_reports_a_late_payment() -> None:
    defined = run_script(STATEFUL_PROCESSOR.split("\nspark = ")[0])
    tester = TwsTester(
        defined["Unpaid"](), timeMode="EventTime", eventTimeExtractor=lambda row: int(row["at"].timestamp() * 1000)
    )

    for order, event, at in EVENTS:
        row = pd.DataFrame({"order": [order], "event": [event], "at": [pd.Timestamp(f"2026-01-01T{at}Z")]})
        tester.testInPandas(order, row)
    reported: Any = tester.setWatermark(int(pd.Timestamp("2026-01-01T11:00Z").timestamp() * 1000))

    assert [(row.order, str(row.due)) for row in reported.itertuples()] == [(2, "2026-01-01 10:35:00")]


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.long
def test_the_port_of_the_stateful_processor_reports_a_late_payment(spark: SparkSession, working_folder: Path) -> None:
    write_json_rows(
        "orders", "1.json", *({"order": n, "event": event, "at": f"2026-01-01T{at}:00Z"} for n, event, at in EVENTS)
    )

    run_script(ITS_PORT)

    assert json_rows("unpaid") == [{"order": 2, "due": "2026-01-01T10:35:00.000Z"}]


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.long
def test_the_port_from_pyflink_emits_each_payment_once(spark: SparkSession, working_folder: Path) -> None:
    run_script(PORT_FROM_PYFLINK)

    assert [row["id"] for row in json_rows("once")] == ["a", "b", "d"]
    assert json_rows("refused") == [{"id": "c", "amount": 0.0}]
