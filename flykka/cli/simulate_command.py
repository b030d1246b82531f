"""What `flykka simulate` does: runs seeds, shows how far it is, and says what was found."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any

from flykka.cli.closed_pipe import print_no_more
from flykka.cli.trace_file import broken, output_problem
from flykka.simulation.campaign import Summary, run_seeds
from flykka.simulation.settings import ALL_FAULTS, SimulationSettings

if TYPE_CHECKING:
    import argparse

    from flykka.simulation.outcome import SimulationOutcome

OK, VIOLATED, UNWRITABLE = 0, 1, 2
_VIOLATIONS_SHOWN = 5
_LOOK_SECONDS = 0.2


def run(arguments: argparse.Namespace) -> int:
    """`flykka simulate`; returns the exit code."""
    summary = Summary()
    try:
        _simulate(summary, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        print_no_more()
    except OSError as refused:
        print(f"flykka simulate: {output_problem(str(refused.filename), refused)}", file=sys.stderr)
        return UNWRITABLE
    except Exception:  # noqa: BLE001 - the exit code tells it from a simulation that fails.
        return broken("flykka simulate")
    return VIOLATED if summary.failed else OK


def _simulate(summary: Summary, arguments: argparse.Namespace) -> None:
    first: int = arguments.from_seed or 0
    seeds = (
        range(first, first + arguments.seeds) if arguments.seed is None else range(arguments.seed, arguments.seed + 1)
    )
    settings = SimulationSettings(faults=arguments.faults, digest=arguments.digest)
    begun = monotonic()
    if arguments.record is not None:
        arguments.record.mkdir(parents=True, exist_ok=True)
    outcomes = run_seeds(seeds, settings, processes=arguments.jobs, record=arguments.record)
    digests: dict[str, str] = {}
    for outcome in _watched(outcomes, len(seeds)):
        summary.add(outcome)
        if outcome.digest is not None and arguments.json:
            digests[str(outcome.seed)] = outcome.digest
        elif outcome.digest is not None:
            print(f"{outcome.seed} {outcome.digest}", flush=True)
        if not outcome.passed and not arguments.json:
            _print_failure(outcome, arguments)
    if arguments.json:
        print(json.dumps(_as_json(summary, arguments) | ({"digests": digests} if arguments.digest else {})))
    elif not arguments.digest:
        _print_summary(summary, monotonic() - begun, sorted(kind.value for kind in settings.faults))


def _watched(outcomes: Iterable[SimulationOutcome], seeds: int) -> Iterator[SimulationOutcome]:
    """The outcomes, with a line on a terminal that says how far they are."""
    is_shown, shown_at, failed = sys.stderr.isatty(), 0.0, 0
    for number, outcome in enumerate(outcomes, 1):
        failed += not outcome.passed
        if is_shown and monotonic() - shown_at > _LOOK_SECONDS:
            shown_at = monotonic()
            print(f"\r{number} of {seeds} seeds, {failed} failed", end="", file=sys.stderr, flush=True)
        if is_shown and (not outcome.passed or number == seeds):
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        yield outcome


def _print_failure(outcome: SimulationOutcome, arguments: argparse.Namespace) -> None:
    print(f"FAILED seed {outcome.seed}: {outcome.topology}")
    for violation in outcome.violations[:_VIOLATIONS_SHOWN]:
        print(f"  {violation}")
    if len(outcome.violations) > _VIOLATIONS_SHOWN:
        print(f"  and {len(outcome.violations) - _VIOLATIONS_SHOWN} more")
    happened = ", ".join(f"{count} {kind}" for kind, count in sorted(outcome.faults.items())) or "no fault"
    print(f"  with {happened}; jobs: {', '.join(outcome.jobs) or 'none has ended'}")
    print(f"  again: {_command(outcome.seed, arguments)}")
    if outcome.trace_path is not None:
        print(f"  trace: {outcome.trace_path}")
    sys.stdout.flush()


def _command(seed: int, arguments: argparse.Namespace) -> str:
    if arguments.faults == ALL_FAULTS:
        return f"flykka simulate --seed {seed}"
    return f"flykka simulate --seed {seed} --faults {','.join(sorted(arguments.faults)) or 'none'}"


def _print_summary(summary: Summary, seconds: float, faults: list[str]) -> None:
    checkpoints = summary.checkpoints
    print(f"{_many(summary.seeds, 'seed')}, {summary.turns:,} turns in {seconds:.1f} s", end="")
    print(f" ({summary.turns / max(seconds, 0.001):,.0f} per second)")
    print(f"  checkpoints  {checkpoints.completed:,} completed, {checkpoints.aborted:,} given up", end="")
    print(f", {checkpoints.savepoints:,} savepoints that clients asked for")
    if checkpoints.reasons:
        reasons = {reason.lower().replace("_", " "): count for reason, count in checkpoints.reasons.items()}
        print(f"  given up     {_counted(reasons)}")
    print(f"  jobs         {_counted(summary.jobs)}; {_many(summary.restarts, 'restart')}")
    print(f"  output       {_many(summary.rows, 'row')}, of which {summary.late_rows:,} came late")
    print(f"  faults       {_counted(summary.faults) if faults else 'none were drawn'}")
    print(f"  {'violations   in ' + _many(len(summary.failed), 'seed') if summary.failed else 'no violations'}")


def _counted(counter: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(counter.items())) or "none"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _as_json(summary: Summary, arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "seeds": summary.seeds,
        "turns": summary.turns,
        "checkpoints_completed": summary.checkpoints.completed,
        "checkpoints_aborted": summary.checkpoints.aborted,
        "reasons": dict(sorted(summary.checkpoints.reasons.items())),
        "savepoints": summary.checkpoints.savepoints,
        "restarts": summary.restarts,
        "jobs": dict(sorted(summary.jobs.items())),
        "faults": dict(sorted(summary.faults.items())),
        "failed": [
            {
                "seed": outcome.seed,
                "violations": [str(violation) for violation in outcome.violations],
                "command": _command(outcome.seed, arguments),
                "trace": None if outcome.trace_path is None else str(outcome.trace_path),
            }
            for outcome in summary.failed
        ],
    }
