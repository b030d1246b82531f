"""Small pictures of numbers over time, as inline SVG: no script, no file, in the colour of the page's own text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from flykka.notebook.colours import BLUE, RED

WIDTH, HEIGHT = 160, 32
BARS = 40
"""As many bars as can be told from each other."""

_TOP = 2


def line(values: Sequence[float | None], tells: str, colour: str = BLUE) -> str:
    """A line from 0 to the greatest value, filled beneath; None leaves a gap. `tells` is its title."""
    greatest = max((value for value in values if value is not None), default=0) or 1
    step = WIDTH / max(1, len(values) - 1)
    drawn = []
    for run in _runs(values):
        points = [(place * step, _height(value, greatest)) for place, value in run]
        if len(points) == 1:
            # A single point is no line: it is drawn as long as its step.
            x, y = points[0]
            points = [(max(0.0, x - step / 2), y), (min(WIDTH, x + step / 2), y)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        area = f"{points[0][0]:.1f},{HEIGHT} {line} {points[-1][0]:.1f},{HEIGHT}"
        drawn.append(f'<polygon points="{area}" fill="{colour}" fill-opacity=".18"></polygon>')
        drawn.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"></polyline>')
    return _svg("".join(drawn), tells)


def bars(values: Sequence[float | None], tells: str, colour: str = BLUE) -> str:
    """A bar for each of at most `BARS` values, from 0 to the greatest; None is a failure: red, of full height."""
    greatest = max((value for value in values if value is not None), default=0) or 1
    step = min(8.0, WIDTH / max(1, len(values)))
    drawn = "".join(
        _bar(place * step, step, _TOP if value is None else _height(value, greatest), RED if value is None else colour)
        for place, value in enumerate(values)
    )
    return _svg(drawn, tells)


def _bar(x: float, step: float, top: float, colour: str) -> str:
    top = min(top, HEIGHT - 1)
    return (
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{step * 0.75:.1f}" height="{HEIGHT - top:.1f}" fill="{colour}"></rect>'
    )


def _height(value: float, greatest: float) -> float:
    return HEIGHT - 1 - max(0.0, value) / greatest * (HEIGHT - 1 - _TOP)


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The values between gaps, each with its place."""
    runs: list[list[tuple[int, float]]] = []
    previous: float | None = None
    for place, value in enumerate(values):
        if value is not None:
            if previous is None:
                runs.append([])
            runs[-1].append((place, value))
        previous = value
    return runs


def _svg(drawn: str, tells: str) -> str:
    told = escape(tells)
    return (
        f'<svg class="spark" role="img" aria-label="{told}" width="{WIDTH}" height="{HEIGHT}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none"><title>{told}</title>'
        f'<line x1="0" y1="{HEIGHT - 0.5}" x2="{WIDTH}" y2="{HEIGHT - 0.5}" stroke="currentColor"'
        f' stroke-opacity=".3"></line>{drawn}</svg>'
    )
