"""Formats replays and forks: the actors that are not replayed, and the outcomes of a fork and of the recording."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flykka.replay.outcomes import JobOutcome, RunOutcome
from flykka.views.text.formats import first_of

if TYPE_CHECKING:
    from flykka.runtime.replay.replayer import ReplayResult

_SHOWN = 3
"""Maximum number of actors to name, per reason why they are not replayed."""

Row = tuple[str, str, str]


def boundary_lines(result: ReplayResult) -> Iterator[str]:
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for actor in result.boundary:
        path, _, why = actor.partition(": ")
        by_reason[why].append(path)
    for why, paths in by_reason.items():
        yield f"not replayed: {first_of(paths, _SHOWN)}: {why}"


def side_by_side(recorded: RunOutcome, forked: RunOutcome) -> Iterator[Row]:
    for job_id in dict.fromkeys([*recorded.jobs, *forked.jobs]):
        here, there = _job(recorded.jobs.get(job_id)), _job(forked.jobs.get(job_id))
        yield f"job {job_id}", here.pop("status"), there.pop("status")
        for label, value in here.items():
            if value != "-" or there[label] != "-":
                yield f"  {label}", value, there[label]
    yield "turns", f"{recorded.turns:,}", f"{forked.turns:,}"
    yield "  that failed", f"{recorded.failed_turns:,}", f"{forked.failed_turns:,}"
    if recorded.raised or forked.raised:
        yield "  because of", "; ".join(recorded.raised) or "-", "; ".join(forked.raised) or "-"
    yield "dead letters", f"{recorded.dead_letters:,}", f"{forked.dead_letters:,}"
    yield "killed actors", f"{len(recorded.killed):,}", f"{len(forked.killed):,}"


def _job(job: JobOutcome | None) -> dict[str, str]:
    if job is None:
        return dict.fromkeys(("status", "restarts", "because of", "lost", "checkpoints", "given up", "duration"), "-")
    return {
        "status": job.status.name,
        "restarts": str(job.restarts),
        "because of": "; ".join(job.failures) or "-",
        "lost": ", ".join(job.lost_task_managers) or "-",
        "checkpoints": _ranges(list(job.completed)) or "-",
        "given up": ", ".join(f"{number} {reason}" for number, reason in job.aborted.items()) or "-",
        "duration": seconds(job.duration_ms),
    }


def _ranges(numbers: list[int]) -> str:
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, each)) for each in ranges)


def seconds(ms: int) -> str:
    return f"{ms / 1000:.3f} s"
