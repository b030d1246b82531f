"""`flykka simulate`: runs seeds, shows the progress, and prints the result."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from flykka.cli.arguments import at_least_one, describe
from flykka.cli.exit_codes import DIFFERENT, OK, UNREADABLE, broken, fail, print_no_more
from flykka.cli.trace.trace_file import output_problem
from flykka.simulation.settings import ALL_FAULTS, FaultKind, SimulationSettings
from flykka.views.text.formats import counted

if TYPE_CHECKING:
    from flykka.simulation.campaign import CampaignSummary
    from flykka.simulation.outcome import SimulationOutcome

_DESCRIPTION = """\
Run whole clusters in virtual time, on one thread each and without Spark, with the
product's own actors and a few real rows. A seed draws a job (sources, forks, unions,
windows, sinks), its settings, the order of all events, and faults. Then it is checked
that every row is in the output exactly once, that uncommitted output was never
visible, that nothing has leaked, and that the job has ended; monitors check every
turn.
"""

_FAULTS = """\
faults:
  delay      an actor pauses for a while
  loss       a message is lost that the protocol does not need, such as a heartbeat
  duplicate  such a message is delivered twice
  crash      a TaskManager dies
  kill       a task dies, or its bridge
  stage      a stage of the data plane fails
  slow       a stage takes seconds
  storage    the storage fails for a while: writing, finalising or discarding
  timer      a timer is lost that the protocol does not need
  clock      the clock jumps forward
  master     the JobMaster dies, or the ResourceManager
  request    a client cancels, stops, drains, or requests a savepoint
"""

_EPILOG = f"""\
{_FAULTS}
examples:
  flykka simulate                               a thousand seeds
  flykka simulate --seed 4711                   one seed again: the same run
  flykka simulate --faults crash,storage --seeds 200
  flykka simulate --from-seed 1000 --jobs 4 --record failed/

exit codes:
  0  no failure
  1  failures; the seeds are listed with the commands that run them again
  2  the command line is wrong, or a trace cannot be written
  3  an internal error of this command
"""
_VIOLATIONS_SHOWN = 5
_LOOK_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG, allow_abbrev=False)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--seeds", type=at_least_one, default=1_000, metavar="N", help="the number of seeds (default: 1000)"
    )
    which.add_argument("--seed", type=_seed, metavar="N", help="only this seed")
    parser.add_argument("--from-seed", type=_seed, metavar="N", help="the first seed (default: 0)")
    add_faults(parser, "the faults to draw")
    parser.add_argument("--record", type=Path, metavar="DIR", help="write the traces of failing seeds to this folder")
    parser.add_argument(
        "-j",
        "--jobs",
        type=at_least_one,
        default=1,
        metavar="N",
        help="the number of seeds to run at a time (default: 1)",
    )
    parser.add_argument("--digest", action="store_true", help="print a digest of all turns of each seed")
    parser.add_argument("--json", action="store_true", help="print the summary, and each failing seed, as JSON")
    parser.set_defaults(run=run, parser=parser)


def add_faults(parser: argparse.ArgumentParser, what: str) -> None:
    kinds = f"{what}: some kinds, 'all' (default) or 'none'"
    parser.add_argument("--faults", type=faults_of, default=ALL_FAULTS, metavar="KIND[,KIND...]", help=kinds)


def faults_of(text: str) -> frozenset[FaultKind]:
    if text in ("all", "none"):
        return ALL_FAULTS if text == "all" else frozenset()
    kinds = {kind.value: kind for kind in FaultKind}
    words = text.split(",")
    unknown = [word for word in words if word not in kinds]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"unknown fault {unknown[0]!r}: use {', '.join(kinds)}, or 'all' or 'none' alone"
        )
    return frozenset(kinds[word] for word in words)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0, not {text!r}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    if arguments.seed is not None and arguments.from_seed is not None:
        arguments.parser.error(
            "--from-seed sets the first of several seeds: pass --seed N, or --from-seed N with --seeds N"
        )
    # Imported here because the import takes a second, which `--help` should not wait for.
    from flykka.simulation.campaign import CampaignSummary

    summary = CampaignSummary()
    try:
        _simulate(summary, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        print_no_more()
    except OSError as refused:
        return fail(f"flykka simulate: {output_problem(str(refused.filename), refused)}", UNREADABLE)
    except Exception:  # noqa: BLE001 - the exit code tells it from a simulation that fails.
        return broken("flykka simulate")
    return DIFFERENT if summary.failed else OK


def _simulate(summary: CampaignSummary, arguments: argparse.Namespace) -> None:
    from flykka.simulation.campaign import run_seeds

    first: int = arguments.from_seed or 0
    seeds = (
        range(first, first + arguments.seeds) if arguments.seed is None else range(arguments.seed, arguments.seed + 1)
    )
    settings = SimulationSettings(faults=arguments.faults, digest=arguments.digest)
    started = monotonic()
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
        _print_summary(summary, monotonic() - started, sorted(kind.value for kind in settings.faults))


def _watched(outcomes: Iterable[SimulationOutcome], seeds: int) -> Iterator[SimulationOutcome]:
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


def _print_summary(summary: CampaignSummary, seconds: float, faults: list[str]) -> None:
    checkpoints = summary.checkpoints
    print(f"{counted(summary.seeds, 'seed')}, {summary.turns:,} turns in {seconds:.1f} s", end="")
    print(f" ({summary.turns / max(seconds, 0.001):,.0f} per second)")
    print(f"  checkpoints  {checkpoints.completed:,} completed, {checkpoints.aborted:,} aborted", end="")
    print(f", {checkpoints.savepoints:,} savepoints requested by clients")
    if checkpoints.reasons:
        reasons = {reason.lower().replace("_", " "): count for reason, count in checkpoints.reasons.items()}
        print(f"  aborted      {_counts_text(reasons)}")
    print(f"  jobs         {_counts_text(summary.jobs)}; {counted(summary.restarts, 'restart')}")
    print(f"  output       {counted(summary.rows, 'row')}, {summary.late_rows:,} of them late")
    print(f"  faults       {_counts_text(summary.faults) if faults else 'none were drawn'}")
    print(f"  {'violations   in ' + counted(len(summary.failed), 'seed') if summary.failed else 'no violations'}")


def _counts_text(counter: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(counter.items())) or "none"


def _as_json(summary: CampaignSummary, arguments: argparse.Namespace) -> dict[str, Any]:
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
