"""`flykka replay`: replays recorded runs and compares them with the recordings. Neither needs nor loads Spark."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from flykka.cli.arguments import TRACE_FILE, add_import, at_least_one, describe
from flykka.cli.exit_codes import BROKEN, DIFFERENT, OK, UNREADABLE, fail, print_no_more
from flykka.cli.trace.trace_file import damaged, import_modules, is_the_same_file, opened, output_problem, reason
from flykka.errors import TraceSelectionError
from flykka.runtime.errors import TraceError
from flykka.runtime.replay.effect_comparator import DivergenceKind
from flykka.traces.origin import beforehand
from flykka.traces.replays import boundary_lines

if TYPE_CHECKING:
    from flykka.runtime.replay.replayer import ReplayResult

_DESCRIPTION = """\
Replay every turn of a recorded run, in the recorded order, and compare the effects
of each actor with the recorded ones. The first difference is shown with its fields,
its line of code and the chain of its causes. Needs no Spark, no Java, no data and
no app: their responses are in the trace.
"""

_EPILOG = """\
examples:
  flykka replay run.trace
  flykka replay run.trace --actor /user/job-1/checkpoint-coordinator
  flykka replay run.trace --import shop.actors
  flykka replay histories/*.trace --junit replay.xml

exit codes:
  0  all replayed turns are as recorded
  1  a run differs from its recording
  2  a file cannot be read or written, or is damaged (the part before the damage was
     replayed), no turn of a run could be replayed, or a recorded message cannot be
     decoded here
  3  an internal error of this command
"""


def configure(parser: argparse.ArgumentParser) -> None:
    describe(parser, _DESCRIPTION, _EPILOG)
    parser.add_argument("files", metavar="FILE", nargs="+", help=TRACE_FILE)
    parser.add_argument("--actor", metavar="PATH", help="only this actor; * and ? stand for any text")
    parser.add_argument("--until", metavar="N", type=at_least_one, help="only turns up to number N")
    add_import(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print everything as one JSON object")
    form.add_argument("--junit", metavar="FILE", help="also write the results to this file as JUnit XML")
    parser.set_defaults(run=replay)


def replay(arguments: argparse.Namespace) -> int:
    with _actors_silenced():
        try:
            import_modules(arguments.modules)
        except TraceSelectionError as missing:
            return fail(f"flykka replay: {missing}", UNREADABLE)
        if arguments.junit is not None and is_the_same_file(arguments.junit, *arguments.files):
            text = f"{arguments.junit} is a trace itself: name another file with --junit"
            return fail(f"flykka replay: {text}", UNREADABLE)
        return _replay(arguments)


def _replay(arguments: argparse.Namespace) -> int:
    results = []
    try:
        for address in arguments.files:
            replayed = _replayed(address, arguments)
            results.append(replayed)
            if not arguments.json:
                _show(replayed)
        if arguments.json:
            print(json.dumps(report_json(results), indent=2))
        sys.stdout.flush()
    except BrokenPipeError:
        print_no_more()
    worst = max((each.code for each in results), default=OK)
    if arguments.junit is not None:
        worst = max(worst, _write(arguments.junit, junit_xml(results)))
    return worst


def _replayed(address: str, arguments: argparse.Namespace) -> Replayed:
    # Imported here because the import takes a second, which `--help` should not wait for.
    from flykka.replay.replayer import Replayer

    began = time.perf_counter()
    try:
        with opened(address) as trace:
            replayer = Replayer(modules=arguments.modules)
            result = replayer.replay(trace, actor=arguments.actor, until=arguments.until)
            notes = tuple(beforehand(trace))
            damage = trace.damage
    except (TraceError, OSError, ImportError) as unreadable:
        return Replayed(address=address, code=UNREADABLE, error=reason(address, unreadable))
    except Exception:  # noqa: BLE001 - the exit code tells it from a run that is not as recorded.
        traceback.print_exc()
        error = f"{address} could not be replayed: this is an internal error of flykka"
        return Replayed(address=address, code=BROKEN, error=error)
    code = UNREADABLE if result.is_empty else OK
    divergence = result.divergence
    if divergence is not None:
        code = UNREADABLE if divergence.kind is DivergenceKind.UNKNOWN_TYPE else DIFFERENT
        # A remote trace was replayed from a temporary copy. Its address replaces the path of the copy.
        result = replace(result, divergence=replace(divergence, trace=address))
    problem = None
    if damage is not None:
        code, problem = UNREADABLE, damaged(address, damage)
    seconds = time.perf_counter() - began
    return Replayed(address=address, code=code, result=result, error=problem, seconds=seconds, notes=notes)


def _show(replayed: Replayed) -> None:
    if replayed.error is not None:
        print(f"flykka replay: {replayed.error}", file=sys.stderr)
    for line in lines_of(replayed):
        print(line)


def _write(path: str, text: str) -> int:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as refusal:
        return fail(f"flykka replay: {output_problem(path, refusal)}", UNREADABLE)
    return OK


@contextmanager
def _actors_silenced() -> Iterator[None]:
    """Silence the log of the actors. Their messages were logged when the run was recorded."""
    logger = logging.getLogger("flykka")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    address: str
    code: int
    result: ReplayResult | None = None
    error: str | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """Remarks on the trace, not on the replay."""


def lines_of(replayed: Replayed) -> Iterator[str]:
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


def summary(address: str, result: ReplayResult, seconds: float) -> str:
    if result.is_empty and result.divergence is None:
        return f"{address}: nothing could be replayed of its {result.turns:,} turns"
    outcome = "as recorded"
    if result.divergence is not None:
        cannot = result.divergence.kind is DivergenceKind.UNKNOWN_TYPE
        outcome = f"{'cannot continue' if cannot else 'diverged'} at turn {result.divergence.turn.sequence}"
    return f"{address}: {outcome}; {result.turns:,} turns, {result.compared:,} of them replayed, in {seconds:.1f} s"


def report_json(results: Sequence[Replayed]) -> dict[str, Any]:
    return {"traces": [_json_of(each) for each in results]}


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


def junit_xml(results: Sequence[Replayed]) -> str:
    failures = [each for each in results if each.result is not None and each.result.divergence is not None]
    errors = [each for each in results if each.code != OK and each not in failures]
    suite = ElementTree.Element(
        "testsuite",
        name="flykka replay",
        tests=str(len(results)),
        failures=str(len(failures)),
        errors=str(len(errors)),
        time=f"{sum(each.seconds for each in results):.3f}",
    )
    for each in results:
        case = ElementTree.SubElement(suite, "testcase", classname="flykka.replay", name=each.address)
        case.set("time", f"{each.seconds:.3f}")
        if each.error is not None:
            ElementTree.SubElement(case, "error", message=each.error)
        elif each.result is not None and each.result.divergence is not None:
            text = each.result.divergence.text()
            failure = ElementTree.SubElement(case, "failure", message=text.splitlines()[0])
            failure.set("type", str(each.result.divergence.kind))
            failure.text = _printable(text)
        elif each.result is not None and each.result.is_empty:
            empty = ElementTree.SubElement(case, "error", message="none of its actors could be replayed")
            empty.text = _printable("\n".join(each.result.boundary))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
