"""How replays went, in words and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from flykka.runtime.replay.effect_differences import DivergenceKind
from flykka.runtime.replay.replayer import ReplayResult

_SHOWN = 3
"""So many actors that are not replayed are named, for each reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One file: what came of it, and the error for which nothing did, or nothing more."""

    address: str
    code: int
    result: ReplayResult | None = None
    error: str | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """What is to be known of the trace itself."""


def lines_of(replayed: Replayed) -> Iterator[str]:
    """What is printed about one file."""
    result = replayed.result
    if result is None:
        return
    if result.divergence is not None:
        yield result.divergence.text()
    yield summary(replayed.address, result, replayed.seconds)
    yield from (f"  {note}" for note in replayed.notes)
    yield from (f"  {line}" for line in boundary_lines(result))
    if result.truncated is not None:
        yield f"  replayed up to byte {result.truncated.offset:,}: {result.truncated.reason}"


def boundary_lines(result: ReplayResult) -> Iterator[str]:
    """One line for each reason for which actors are not replayed."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for actor in result.boundary:
        path, _, why = actor.partition(": ")
        by_reason[why].append(path)
    for why, paths in by_reason.items():
        more = f" and {len(paths) - _SHOWN:,} more" if len(paths) > _SHOWN else ""
        yield f"not replayed: {', '.join(paths[:_SHOWN])}{more}: {why}"


def summary(address: str, result: ReplayResult, seconds: float) -> str:
    """One line."""
    if result.is_empty and result.divergence is None:
        return f"{address}: nothing could be replayed of its {result.turns:,} turns"
    outcome = "as recorded"
    if result.divergence is not None:
        cannot = result.divergence.kind is DivergenceKind.UNKNOWN_TYPE
        outcome = f"{'cannot go on' if cannot else 'diverged'} at turn {result.divergence.turn.sequence}"
    return f"{address}: {outcome}; {result.turns:,} turns, {result.compared:,} of them replayed, in {seconds:.1f} s"


def report_json(done: Sequence[Replayed]) -> dict[str, Any]:
    """Everything, for programs."""
    return {"traces": [_json_of(each) for each in done]}


def _json_of(replayed: Replayed) -> dict[str, Any]:
    if replayed.result is None:
        return {"trace": replayed.address, "exit_code": replayed.code, "error": replayed.error}
    result = replayed.result
    truncated = result.truncated
    return {
        "trace": replayed.address,
        "exit_code": replayed.code,
        "turns": result.turns,
        "compared": result.compared,
        "seconds": round(replayed.seconds, 3),
        "divergence": None if result.divergence is None else result.divergence.to_dict(),
        "boundary": list(result.boundary),
        "notes": list(replayed.notes),
        "truncated": None if truncated is None else asdict(truncated),
    }
