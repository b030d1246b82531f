"""Figures of a run over time, and whether they have grown between its beginning and its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

AT_MOST = 1.05
"""The maximum ratio of a figure at the end to the same figure after the first minutes."""

MIB, PLAIN, MS = "MiB", "", "ms"

FIGURES = {
    "driver_resident_bytes": ("driver, resident memory", MIB),
    "python_blocks": ("driver, blocks of Python's memory", PLAIN),
    "python_objects": ("driver, objects behind a collection", PLAIN),
    "driver_open_files": ("driver, open files", PLAIN),
    "driver_threads": ("driver, threads", PLAIN),
    "jvm_resident_bytes": ("JVM, resident memory", MIB),
    "live_heap_bytes": ("JVM, heap behind a collection", MIB),
    "jvm_open_files": ("JVM, open files", PLAIN),
    "jvm_threads": ("JVM, threads", PLAIN),
    "stored_blocks": ("blocks stored in Spark", PLAIN),
    "checkpoint_files": ("files of checkpoints", PLAIN),
    "checkpoint_ms": ("time of a checkpoint", MS),
    "batch_ms": ("time of a batch", MS),
    "latency_ms": ("latency from arrival to commit", MS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The length of a run, the time between two samples, and the compared time spans, all in seconds."""

    seconds: float
    sample_s: float
    settled_s: float
    span_s: float

    @classmethod
    def of(cls, seconds: float) -> Schedule:
        """Compare the fourth minute with the last; in a short run, shorter spans of its second half."""
        span_s = min(60.0, seconds / 4)
        return cls(seconds=seconds, sample_s=min(10.0, span_s / 2), settled_s=min(180.0, seconds / 2), span_s=span_s)

    @property
    def last_s(self) -> float:
        return self.seconds - self.span_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    early: float
    late: float

    @property
    def ratio(self) -> float | None:
        """The growth factor; None if the first value was zero."""
        return self.late / self.early if self.early else None

    @property
    def holds(self) -> bool:
        return self.late <= self.early * AT_MOST


@dataclass(slots=True)
class Recorded:
    """The figures of a run: the seconds of each measurement, since the first file was due, and the values."""

    schedule: Schedule
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def note(self, second: float, figures: Mapping[str, float]) -> None:
        for name, figure in figures.items():
            self.points.setdefault(name, []).append((second, figure))

    def compared(self) -> dict[str, Comparison]:
        """Return the medians of each figure that was measured in both time spans."""
        made: dict[str, Comparison] = {}
        for name in FIGURES:
            early, late = (self._within(name, start_s) for start_s in (self.schedule.settled_s, self.schedule.last_s))
            if early and late:
                made[name] = Comparison(early=median(early), late=median(late))
        return made

    def by_span(self) -> dict[str, list[float | None]]:
        """Return the medians of each figure by time span, None for spans without a value.

        A span is a minute, or shorter if the run is short.
        """
        starts = [place * self.schedule.span_s for place in range(round(self.schedule.seconds / self.schedule.span_s))]
        return {name: [_median(self._within(name, start_s)) for start_s in starts] for name in FIGURES}

    def _within(self, name: str, start_s: float) -> list[float]:
        ends_s = start_s + self.schedule.span_s
        return [figure for second, figure in self.points.get(name, ()) if start_s <= second < ends_s]


def as_json(recorded: Recorded, files: int) -> dict[str, Any]:
    schedule = recorded.schedule
    return {
        "seconds": schedule.seconds,
        "files": files,
        "compared_seconds": [schedule.settled_s, schedule.last_s],
        "span_seconds": schedule.span_s,
        "figures": {
            name: {
                "early": round(each.early, 1),
                "late": round(each.late, 1),
                "ratio": None if each.ratio is None else round(each.ratio, 3),
                "holds": each.holds,
            }
            for name, each in recorded.compared().items()
        },
        "by_span": {
            name: [None if each is None else round(each, 1) for each in medians]
            for name, medians in recorded.by_span().items()
        },
    }


def as_table(found: Mapping[str, Any]) -> str:
    early_s, late_s = found["compared_seconds"]
    lines = [
        f"{found['files']:,} files in {found['seconds']:,.0f} s; medians of {found['span_seconds']:,.0f} s, from the"
        f" second that stands above them on; at most {100 * AT_MOST - 100:.0f} % more at the end is the aim:",
        "",
        f"| | {early_s:,.0f} s | {late_s:,.0f} s | ratio | holds |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for name, each in found["figures"].items():
        title, unit = FIGURES[name]
        ratio = "" if each["ratio"] is None else f"{each['ratio']:.2f}"
        cells = (title, _told(each["early"], unit), _told(each["late"], unit), ratio, "yes" if each["holds"] else "no")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _told(figure: float, unit: str) -> str:
    shown = figure / 2**20 if unit == MIB else figure
    return f"{shown:,.0f} {unit}".rstrip()


def _median(figures: Iterable[float]) -> float | None:
    values = list(figures)
    return median(values) if values else None
