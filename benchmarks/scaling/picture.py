"""Draws the curves as a picture: SVG in plain text, which follows the reader's light or dark mode."""

from __future__ import annotations

from benchmarks.scaling.curves import AXES, Curve, rounded
from flykka.views.html.markup import Html, element, fragment

_WIDTH, _HEIGHT = 860, 246
"""The width of the picture, and the height of a row with two curves."""

_LEFT, _TOP, _ACROSS, _DOWN = 24, 72, 372, 120
"""The position of a curve in its half, and its size."""

_STYLE = """
text { fill: #1f2933; font: 13px Helvetica, Arial, sans-serif } .quiet { fill: #52606d } .title { font-weight: bold }
.ground { fill: #ffffff } .axis { stroke: #9aa5b1 } .flat { stroke: #3e8ed0; fill: #3e8ed0 }
.rising { stroke: #d9622b; fill: #d9622b }
@media (prefers-color-scheme: dark) {
text { fill: #e4e7eb } .quiet { fill: #9aa5b1 } .ground { fill: #14181d } .axis { stroke: #52606d } }
"""


def picture(curves: list[Curve]) -> str:
    """Draw the cost of a unit over its doublings, in two columns of curves: a linear cost is a flat line."""
    height = 44 + _HEIGHT * -(-len(curves) // 2)
    return str(
        element(
            "svg",
            element("title", "The cost of a unit as its number is doubled"),
            element("style", Html(_STYLE)),
            element("rect", class_="ground", width=_WIDTH, height=height, rx=10),
            element(
                "text", "cost of a unit where the number is doubled; linear is a flat line", class_="title", x=24, y=30
            ),
            *(
                _panel(curve, place % 2 * (_WIDTH // 2), 36 + place // 2 * _HEIGHT)
                for place, curve in enumerate(curves)
            ),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {_WIDTH} {height}",
            role="img",
        )
    )


def _panel(curve: Curve, left: int, top: int) -> Html:
    axis, costs = AXES[curve.axis], curve.costs
    kind = "flat" if curve.is_flat else "rising"
    step, greatest = _ACROSS / max(1, len(costs) - 1), max(costs.values())
    points = [(_LEFT + place * step, _TOP + _DOWN * (1 - cost / greatest)) for place, cost in enumerate(costs.values())]
    ground = _TOP + _DOWN
    return element(
        "g",
        element("text", axis.title, class_="title", x=_LEFT, y=24),
        element("text", axis.unit, class_="quiet", x=_LEFT, y=41),
        element("path", class_="axis", d=f"M{_LEFT} {ground}H{_LEFT + _ACROSS}"),
        element("polyline", class_=kind, fill="none", style="fill: none", stroke_width=2, points=_path(points)),
        *(element("circle", class_=kind, cx=f"{x:.1f}", cy=f"{y:.1f}", r=3) for x, y in points),
        *_labels(points, costs, ground),
        transform=f"translate({left} {top})",
    )


def _labels(points: list[tuple[float, float]], costs: dict[int, float], ground: int) -> list[Html]:
    made = []
    for place, ((x, y), (size, cost)) in enumerate(zip(points, costs.items(), strict=True)):
        anchor = "start" if not place else "end" if place == len(points) - 1 else "middle"
        made.append(
            fragment(
                element("text", _short(size), class_="quiet", x=f"{x:.1f}", y=ground + 18, text_anchor=anchor),
                element("text", f"{rounded(cost):g}", x=f"{x:.1f}", y=f"{y - 8:.1f}", text_anchor=anchor),
            )
        )
    return made


def _short(size: int) -> str:
    """Format a size as `31.25k` or `1M`."""
    if size < 10_000:
        return f"{size:,}"
    return f"{size / 1_000_000:g}M" if size >= 1_000_000 else f"{size / 1_000:g}k"


def _path(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
