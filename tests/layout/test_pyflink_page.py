"""The page on PyFlink's methods: each method has a row, and either a test uses the method or an error explains why it
is missing.
"""

from __future__ import annotations

import re
from pkgutil import resolve_name

import pytest

import flykka
from flykka.api.migration_hints import MigrationHints, hint_for
from flykka.api.streams.operator_settings import DataStreamSink
from tests.layout.pyflink_methods import NAMES
from tests.layout.sources import ROOT
from tests.layout.used_names import text_of

pytestmark = pytest.mark.slow

HEADER = ["PyFlink", "flykka", "shown by"]
LINES = (ROOT / "docs" / "pyflink_methods.md").read_text(encoding="utf-8").splitlines()
TABLES = [[cell.strip() for cell in line[2:-2].split(" | ")] for line in LINES if line.startswith("| ")]
ROWS = [row for row in TABLES if row != HEADER and set(row) != {"---"}]
HERE = re.compile(r"`(\w+)\.(\w+)`")
OF_FUNCTIONS = "flykka.spark_bridge.functions"
PLACES = {
    "ConnectedStreams": "flykka.api.streams.connected_streams",
    "DataStreamSink": "flykka.api.streams.operator_settings",
    "ListState": f"{OF_FUNCTIONS}.state",
    "MapState": f"{OF_FUNCTIONS}.state",
    "OnMergeContext": f"{OF_FUNCTIONS}.windowing.trigger",
    "OperatorStateStore": f"{OF_FUNCTIONS}.checkpointed_function",
    "ProcessWindowContext": f"{OF_FUNCTIONS}.windowing.window_function",
    "ReducingState": f"{OF_FUNCTIONS}.state",
    "State": f"{OF_FUNCTIONS}.state",
    "StateDescriptor": f"{OF_FUNCTIONS}.state_descriptors",
    "StateTtlConfigBuilder": f"{OF_FUNCTIONS}.state_ttl",
    "TimerService": f"{OF_FUNCTIONS}.timer_service",
    "TriggerContext": f"{OF_FUNCTIONS}.windowing.trigger",
    "ValueState": f"{OF_FUNCTIONS}.state",
}
"""The modules of classes that programs do not import."""

TELLING: dict[str, type[MigrationHints]] = {
    "AllWindowedStream": flykka.AllWindowedStream,
    "CachedDataStream": flykka.CachedDataStream,
    "DataStream": flykka.DataStream,
    "DataStreamSink": DataStreamSink,
    "KeyedStream": flykka.KeyedStream,
    "StreamExecutionEnvironment": flykka.StreamExecutionEnvironment,
    "WindowedStream": flykka.WindowedStream,
}
"""The classes whose errors state what to write instead."""


def class_of(name: str) -> object:
    return resolve_name(f"{PLACES[name]}:{name}") if name in PLACES else getattr(flykka, name, None)


def test_the_page_has_tables_of_three_columns() -> None:
    assert TABLES.count(HEADER) == sum(line.startswith("## ") for line in LINES) > 0
    assert [row for row in ROWS if len(row) != len(HEADER) or not all(row)] == []


def test_every_method_of_pyflink_has_one_row_and_vice_versa() -> None:
    methods = [f"`{owner}.{name}`" for owner, names in NAMES.items() for name in names.split()]

    assert [row[0] for row in ROWS] == methods
    assert len(set(methods)) == len(methods)


@pytest.mark.parametrize("row", [row for row in ROWS if HERE.fullmatch(row[1])], ids=lambda row: row[0])
def test_a_supported_method_is_used_by_the_test_of_its_row(row: list[str]) -> None:
    here = HERE.fullmatch(row[1])
    assert here is not None
    owner, name = here.groups()

    assert hasattr(class_of(owner), name) or name in getattr(class_of(owner), "__annotations__", ())
    assert re.search(rf"\b{name}\b", text_of(row[2].strip("`")))


@pytest.mark.parametrize("row", [row for row in ROWS if not HERE.fullmatch(row[1])], ids=lambda row: row[0])
def test_an_unsupported_method_names_its_replacement(row: list[str]) -> None:
    owner, _, name = row[0].strip("`").rpartition(".")
    text = re.fullmatch(r"(?:no|instead): (.+)", row[1])
    assert text is not None

    hint = hint_for(TELLING[owner], name) if owner in TELLING else None
    assert not hasattr(class_of(owner), name)
    assert row[2] == ("no such name" if owner not in TELLING else "its error")
    assert hint is None or hint.replace("`", "") == text[1].replace("`", "")
    assert (hint is None) == (owner not in TELLING)


def test_every_call_on_the_page_exists() -> None:
    offered = {name for each in flykka.__all__ for name in dir(getattr(flykka, each))} | set(flykka.__all__)
    elsewhere = {"F", "variant_get", "createDataFrame"}

    names = {name for row in ROWS for code in re.findall(r"`([^`]+)`", row[1]) for name in re.findall(r"(\w+)\(", code)}

    assert names - offered - elsewhere == set()
