"""The Grafana dashboard queries the metrics of `/metrics` and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flykka.metrics.measured import of_subtasks
from flykka.metrics.prometheus import text_of
from tests.flykka.rest.conftest import Served
from tests.flykka.rest.test_metrics import SUBTASK, VERTEX

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "docs" / "grafana" / "flykka.json").read_text(encoding="utf-8")
)
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
VARIABLES: list[dict[str, Any]] = DASHBOARD["templating"]["list"]
QUERIES = [target for panel in PANELS for target in panel.get("targets", ())]
TEXTS = [
    *(target["expr"] for target in QUERIES),
    *(each["query"]["query"] for each in VARIABLES if each["type"] == "query"),
]


@pytest.fixture
def labels_by_name(served: Served) -> dict[str, set[str]]:
    """Return the metrics of a cluster and of a task with a source and a sink, with their labels."""
    task = replace(VERTEX, sources=("in",))
    text = served.http.get("/metrics").text + text_of(of_subtasks(served.job.details, task, [SUBTASK], "host", 4_000))
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_each_queried_metric_is_scraped(labels_by_name: dict[str, set[str]]) -> None:
    asked = {name for text in TEXTS for name in re.findall(r"\bflink_\w+", text)}

    assert len(asked) > 20
    assert sorted(asked - labels_by_name.keys()) == []


def test_each_label_in_a_query_belongs_to_its_metrics(labels_by_name: dict[str, set[str]]) -> None:
    for text in TEXTS:
        asked = set(_labels(text))
        for name in re.findall(r"\bflink_\w+", text):
            assert asked <= labels_by_name[name], text


def test_a_legend_uses_labels_that_its_query_preserves() -> None:
    for target in QUERIES:
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        kept = re.search(r"\bby \(([^)]*)\)", target["expr"])
        if kept is not None:
            assert named <= set(kept[1].split(", ")), target
        elif target["expr"].startswith("sum("):
            assert named == set()


def test_each_variable_in_a_query_is_declared() -> None:
    declared = {each["name"] for each in VARIABLES} | {"__rate_interval"}

    used = {name for text in TEXTS for name in re.findall(r"\$(\w+)", text)}

    assert used <= declared
    assert {target["datasource"]["uid"] for target in QUERIES} == {"${datasource}"}


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in PANELS]

    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for one, other in combinations(places, 2):
        apart_across = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_down = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_across or apart_down, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def _labels(query: str) -> Iterator[str]:
    yield from re.findall(r"(\w+)=~", query)
    for listed in re.findall(r"\bby \(([^)]*)\)", query):
        yield from listed.split(", ")
    yield from re.findall(r"^label_values\(.*, (\w+)\)$", query)
