"""Small charts of numbers over time, as inline SVG: no script, no file, in the colour of the page's text."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.views.html.markup import BLUE, RED, Html, element

WIDTH, HEIGHT = 160, 32
BARS = 40
"""The maximum number of bars that can be distinguished."""

_TOP = 2


def line(values: Sequence[float | None], title: str, colour: str = BLUE) -> Html:
    """Draw a line chart from 0 to the greatest value, filled below. None leaves a gap. `title` is the chart's label."""
    step = WIDTH / max(1, len(values) - 1)
    shapes = []
    for run in _runs(values):
        points = [(place * step, height) for place, height in run]
        if len(points) == 1:
            # A single point is drawn as a line with the length of its step.
            x, y = points[0]
            points = [(max(0.0, x - step / 2), y), (min(WIDTH, x + step / 2), y)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        area = f"{points[0][0]:.1f},{HEIGHT} {line} {points[-1][0]:.1f},{HEIGHT}"
        shapes.append(element("polygon", points=area, fill=colour, fill_opacity=".18"))
        shapes.append(element("polyline", points=line, fill="none", stroke=colour, stroke_width="1.5"))
    return _svg(shapes, title)


def bars(values: Sequence[float | None], title: str, colour: str = BLUE) -> Html:
    """Draw at most `BARS` bars, from 0 to the greatest value. None is a failure: a red bar of full height."""
    step = min(8.0, WIDTH / max(1, len(values)))
    return _svg(
        [
            _bar(place * step, step, _TOP if top is None else top, RED if top is None else colour)
            for place, top in enumerate(_tops(values))
        ],
        title,
    )


def _bar(x: float, step: float, top: float, colour: str) -> Html:
    top = min(top, HEIGHT - 1)
    return element(
        "rect", x=f"{x:.1f}", y=f"{top:.1f}", width=f"{step * 0.75:.1f}", height=f"{HEIGHT - top:.1f}", fill=colour
    )


def _tops(values: Sequence[float | None]) -> list[float | None]:
    greatest = max((value for value in values if value is not None), default=0) or 1
    return [
        None if value is None else HEIGHT - 1 - max(0.0, value) / greatest * (HEIGHT - 1 - _TOP) for value in values
    ]


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Split the points at gaps. Each point has its index."""
    runs: list[list[tuple[int, float]]] = [[]]
    for place, top in enumerate(_tops(values)):
        if top is not None:
            runs[-1].append((place, top))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _svg(shapes: Sequence[Html], title: str) -> Html:
    ground = HEIGHT - 0.5
    return element(
        "svg",
        element("title", title),
        element("line", x1="0", y1=ground, x2=WIDTH, y2=ground, stroke="currentColor", stroke_opacity=".3"),
        *shapes,
        class_="spark",
        role="img",
        aria_label=title,
        width=WIDTH,
        height=HEIGHT,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
    )
