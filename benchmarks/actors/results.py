"""Formats measured figures as JSON for programs and as a table for people."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from benchmarks.actors.population import Population
from benchmarks.actors.rules import Contender, Rules
from benchmarks.actors.side import Discipline

Rates = Mapping[tuple[Contender, Discipline], Sequence[float]]
"""The rates per second in each round."""

_RATIOS = {
    "tell_over_pykka": ((Contender.FLYKKA, Discipline.TELL), (Contender.PYKKA, Discipline.TELL), 10.0),
    "tell_recorded_over_pykka": (
        (Contender.FLYKKA_RECORDED, Discipline.RELAY),
        (Contender.PYKKA, Discipline.TELL),
        2.0,
    ),
    "relay_over_pykka": ((Contender.FLYKKA, Discipline.RELAY), (Contender.PYKKA, Discipline.RELAY), None),
    "ask_over_pykka": ((Contender.FLYKKA, Discipline.ASK), (Contender.PYKKA, Discipline.ASK), 1.2),
    "fan_out_over_pykka": ((Contender.FLYKKA, Discipline.FAN_OUT), (Contender.PYKKA, Discipline.FAN_OUT), 5.0),
    "ring_over_pykka": ((Contender.FLYKKA, Discipline.RING), (Contender.PYKKA, Discipline.RING), None),
}
"""The ratio of two contenders, with the kernel's target if there is one."""

_TITLES = {
    (Contender.PYKKA, Discipline.TELL): "tells into a busy actor",
    (Contender.FLYKKA, Discipline.TELL): "tells into a busy actor",
    (Contender.PYKKA, Discipline.RELAY): "turns that tell one message each",
    (Contender.FLYKKA, Discipline.RELAY): "turns that tell one message each",
    (Contender.FLYKKA_RECORDED, Discipline.RELAY): "the same, recorded to a file",
    (Contender.PYKKA, Discipline.ASK): "asks that wait for the reply",
    (Contender.FLYKKA, Discipline.ASK): "asks that wait for the reply",
    (Contender.PYKKA, Discipline.FAN_OUT): "messages to 1,000 actors and back",
    (Contender.FLYKKA, Discipline.FAN_OUT): "messages to 1,000 actors and back",
    (Contender.PYKKA, Discipline.RING): "hops around a ring of 100",
    (Contender.FLYKKA, Discipline.RING): "hops around a ring of 100",
}


def as_json(rates: Rates, populations: Mapping[str, Population]) -> dict[str, Any]:
    """Return the ratios of medians, the medians, and the populations; `actors` is the kernel's population."""
    medians = {key: median(several) for key, several in rates.items()}
    found: dict[str, Any] = {
        name: round(medians[ours] / medians[theirs], 2) for name, (ours, theirs, _) in _RATIOS.items()
    }
    found["actors"] = _rounded(populations["flykka"])
    found["actors_of_pykka"] = _rounded(populations["pykka"])
    found["per_second"] = {
        f"{contender}.{discipline}": round(medians[contender, discipline]) for contender, discipline in medians
    }
    return found


def _rounded(population: Population) -> dict[str, float]:
    return {name: round(value, 2) for name, value in asdict(population).items()}


def as_table(found: Mapping[str, Any], rules: Rules) -> str:
    lines = [
        f"Medians of {rules.repeat} on {os.cpu_count()} cores, Python {platform.python_version()}:",
        "",
        "| per second | plain Pykka | flykka | over Pykka | wanted |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    per_second = found["per_second"]
    for name, (ours, theirs, wanted) in _RATIOS.items():
        cells = (
            _TITLES[ours],
            f"{per_second[_key(theirs)]:,}",
            f"{per_second[_key(ours)]:,}",
            f"{found[name]:.2f}",
            "" if wanted is None else f"{wanted:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "| actors alive at once | started in | stopped in | memory of the process |",
        "| ---: | ---: | ---: | ---: |",
        *(
            _population_line(title, found[key])
            for title, key in (("plain Pykka", "actors_of_pykka"), ("flykka", "actors"))
        ),
    ]
    return "\n".join(lines)


def _key(heat: tuple[Contender, Discipline]) -> str:
    return f"{heat[0]}.{heat[1]}"


def _population_line(title: str, population: Mapping[str, float]) -> str:
    return (
        f"| {population['count']:,} of {title} | {population['start_s']:.2f} s | {population['stop_s']:.2f} s "
        f"| {population['rss_mib']:,.0f} MiB |"
    )
