"""Merges the accumulators of many attempts (Flink's AccumulatorHelper)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from flykka.messages.tasks.accumulator import (
    AccumulatorResults,
    AccumulatorSnapshot,
    FailedAccumulatorResult,
    HistogramCount,
)


def merged(snapshots: Iterable[AccumulatorSnapshot]) -> AccumulatorResults:
    """Merge accumulators by name: counters are added; accumulators with one name but different types fail."""
    results: dict[str, AccumulatorSnapshot | FailedAccumulatorResult] = {}
    for snapshot in snapshots:
        so_far = results.get(snapshot.name)
        match so_far:
            case None:
                results[snapshot.name] = snapshot
            case AccumulatorSnapshot() if so_far.type is snapshot.type:
                results[snapshot.name] = _sum(so_far, snapshot)
            case AccumulatorSnapshot():
                reason = f"it is of kind {so_far.type} in one subtask and of kind {snapshot.type} in another"
                results[snapshot.name] = FailedAccumulatorResult(name=snapshot.name, reason=reason)
            case FailedAccumulatorResult():
                pass
    return AccumulatorResults(
        merged=tuple(each for each in results.values() if isinstance(each, AccumulatorSnapshot)),
        failed=tuple(each for each in results.values() if isinstance(each, FailedAccumulatorResult)),
    )


def _sum(one: AccumulatorSnapshot, other: AccumulatorSnapshot) -> AccumulatorSnapshot:
    counts: Counter[int] = Counter()
    for bin_ in (*one.counts, *other.counts):
        counts[bin_.number] += bin_.count
    return replace(
        one,
        count=one.count + other.count,
        total=one.total + other.total,
        counts=tuple(HistogramCount(number=number, count=count) for number, count in sorted(counts.items())),
    )
