"""Replays as JUnit's XML, which every CI server shows: a test case for each file."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from flykka.cli.replay_report import Replayed
from flykka.cli.trace_file import OK


def junit_xml(done: Sequence[Replayed]) -> str:
    """The whole document."""
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
