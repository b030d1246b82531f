"""Sparklines stay within their frame for all numbers, and show every failure."""

from __future__ import annotations

import re

import pytest

from flykka.views.html.markup import RED
from flykka.views.html.sparkline import BARS, HEIGHT, WIDTH, bars, line
from tests.flykka.notebook.html_reader import Reader


def points(svg: str) -> list[tuple[float, float]]:
    return [
        (float(x), float(y))
        for drawn in re.findall(r'polyline points="([^"]*)"', svg)
        for x, y in (point.split(",") for point in drawn.split())
    ]


@pytest.mark.parametrize(
    "values", [(), (0.0, 0.0), (5.0,), (1.0, None, 3.0), (None, 2.0), (-5.0, 1e12)], ids=lambda values: str(values)
)
def test_a_line_stays_within_its_frame(values: tuple[float | None, ...]) -> None:
    svg = line(values, "rows")

    assert "svg" in Reader(svg).tags
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points(svg))


def test_a_gap_splits_a_line() -> None:
    assert line((1.0, 2.0, None, 3.0), "rows").count("<polyline") == 2


def test_a_failure_is_a_red_bar_beside_the_others() -> None:
    svg = bars([*[100.0] * (BARS - 1), None], "times")

    assert svg.count("<rect") == BARS
    assert svg.count(RED) == 1


def test_pictures_have_a_text_alternative() -> None:
    assert "<script>" in Reader(line((1.0,), "<script>")).text
