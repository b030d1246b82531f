"""Tests that every recipe of docs/recipes.md runs unchanged on a few rows, with the results that the page promises."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.layout.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow]

PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (?P<title>.*?)\n(?P<text>.*?)(?=^## |\Z)", re.M | re.S)
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PREAMBLE = SNIPPET.findall(PAGE[: PAGE.index("\n## ")])[0]
RECIPES = {found["title"]: SNIPPET.findall(found["text"]) for found in SECTION.finditer(PAGE)}

Rows = list[tuple[Any, ...]]


def cook(title: str, **arrivals: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """Run a recipe on these rows, one file per folder, and return its variables."""
    for name, rows in arrivals.items():
        Path(name).mkdir()
        Path(name, "first.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        Path(name, "_SUCCESS").touch()
    (recipe,) = RECIPES[title]
    defined: dict[str, Any] = {}

    exec(PREAMBLE, defined)
    with defined["env"]:
        exec(recipe, defined)
    return defined


def iso_time(time: str) -> str:
    return f"2026-01-01T{time}Z"


def sorted_parquet_rows(spark: SparkSession, folder: str, *columns: str) -> Rows:
    return sorted(map(tuple, spark.read.parquet(folder).selectExpr(*columns).collect()))


def test_every_recipe_with_code_has_a_test() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")

    untested = [title for title, snippets in RECIPES.items() if snippets and f'cook("{title}"' not in tested]

    assert untested == []


@pytest.mark.long
def test_an_event_repeated_within_the_hour_is_emitted_once(spark: SparkSession, working_folder: Path) -> None:
    events = [
        {"id": "a", "time": iso_time("10:00:00"), "amount": 1},
        {"id": "b", "time": iso_time("10:01:00"), "amount": 2},
        {"id": "a", "time": iso_time("10:02:00"), "amount": 1},
    ]

    cook("De-duplicate", events=events)

    assert sorted_parquet_rows(spark, "once", "id", "minute(time)") == [("a", 0), ("b", 1)]


def test_totals_ignore_older_repeated_rows(spark: SparkSession, working_folder: Path) -> None:
    cities = ("rome", "oslo", "rome")
    sales = [{"city": city, "time": iso_time("10:00:00"), "amount": 2.5} for city in cities]

    defined = cook("Running totals", sales=sales)
    older = spark.createDataFrame([("rome", 1, 2.5)], "city string, sales long, amount double")
    defined["show"](older, 1)

    with sqlite3.connect("totals.db") as database:
        assert database.execute("select * from totals order by city").fetchall() == [("oslo", 1, 2.5), ("rome", 2, 5.0)]


@pytest.mark.long
def test_half_an_hour_of_silence_ends_a_session(spark: SparkSession, working_folder: Path) -> None:
    visits = [
        {"user": "ann", "time": iso_time(f"{time}:00"), "page": "/"} for time in ("10:00", "10:20", "10:20", "11:00")
    ]

    cook("Sessions", visits=visits)

    columns = "user", "hour(began)", "minute(ended)", "minute(window_end)", "pages"
    assert sorted_parquet_rows(spark, "sessions", *columns) == [("ann", 10, 20, 50, 3), ("ann", 11, 0, 30, 1)]


@pytest.mark.long
def test_a_click_is_joined_with_its_impression(spark: SparkSession, working_folder: Path) -> None:
    shown = [{"ad": ad, "time": iso_time("10:00:00"), "page": "/"} for ad in ("clicked", "ignored")]
    clicks = [{"ad": ad, "time": iso_time("10:05:00"), "user": "ann"} for ad in ("clicked", "clicked", "never shown")]

    cook("Clicks and the impressions they belong to", impressions=shown, clicks=clicks)

    assert sorted_parquet_rows(spark, "clicked", "ad", "minute(clicked)", "page") == [("clicked", 5, "/")] * 2


@pytest.mark.long
def test_the_three_best_sellers_of_an_hour_are_ranked(spark: SparkSession, working_folder: Path) -> None:
    orders = [{"item": item, "time": iso_time("10:00:00")} for item in "aaaabbbccd"]

    cook("Top n", orders=orders)

    assert sorted_parquet_rows(spark, "top", "rank", "item", "sold") == [(1, "a", 4), (2, "b", 3), (3, "c", 2)]


@pytest.mark.long
def test_a_sensor_silent_for_five_minutes_is_reported(spark: SparkSession, working_folder: Path) -> None:
    spoken = [("door", "10:01"), ("roof", "10:02"), ("door", "10:05"), ("door", "10:20")]
    readings = [{"sensor": each, "time": iso_time(f"{time}:00"), "value": 1} for each, time in spoken]

    cook("The silent sensor", readings=readings)

    silent = [("door", 5), ("door", 20), ("roof", 2)]
    assert sorted_parquet_rows(spark, "silent", "sensor", "minute(silent_since)") == silent


def test_a_purchase_has_the_price_at_the_time_when_it_is_read(spark: SparkSession, working_folder: Path) -> None:
    (working_folder / "prices").mkdir()
    (working_folder / "prices" / "today.json").write_text('{"item": "tea", "price": 3.5}', encoding="utf-8")
    purchases = [{"item": item, "time": iso_time("10:00:00"), "pieces": 2} for item in ("tea", "gold")]

    cook("A dimension that changes", purchases=purchases)

    assert sorted_parquet_rows(spark, "purchases priced", "item", "price") == [("gold", None), ("tea", 3.5)]


def test_a_row_written_twice_is_in_the_database_once(spark: SparkSession, working_folder: Path) -> None:
    logs = [{"service": "shop", "time": iso_time(f"10:00:0{second}"), "status": 500} for second in range(3)]

    defined = cook("A database", logs=logs)
    again = spark.sql("select timestamp '2026-01-01 10:00:00' as window_start, 'shop' as service, 3 as n")
    defined["put"](again, 1)

    with sqlite3.connect("errors.db") as database:
        assert database.execute("select service, n from errors").fetchall() == [("shop", 3)]
