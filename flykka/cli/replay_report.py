"""Reports of replays: in words, as JSON, and as JUnit's XML, which every CI server shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from flykka.cli.exit_codes import OK
from flykka.runtime.replay.effect_differences import DivergenceKind
from flykka.traces.replays import boundary_lines

if TYPE_CHECKING:
    from flykka.runtime.replay.replayer import ReplayResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The result of one file: its replay, and the error that prevented or ended that."""

    address: str
    code: int
    result: ReplayResult | None = None
    error: str | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """Remarks on the trace itself."""


def lines_of(replayed: Replayed) -> Iterator[str]:
    """Yield the lines about one file."""
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
    """Summarise a replay in one line."""
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


def junit_xml(done: Sequence[Replayed]) -> str:
    """A document with a test case for each file."""
    failures = [each for each in done if each.result is not None and each.result.divergence is not None]
    errors = [each for each in done if each.code != OK and each not in failures]
    suite = ElementTree.Element(
        "testsuite",
        name="flykka replay",
        tests=str(len(done)),
        failures=str(len(failures)),
        errors=str(len(errors)),
        time=f"{sum(each.seconds for each in done):.3f}",
    )
    for each in done:
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
    """Without what XML has no form for."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
