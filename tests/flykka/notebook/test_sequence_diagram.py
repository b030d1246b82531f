"""A sequence diagram in a cell: its page is embedded unchanged in a sandboxed frame."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from flykka import Trace
from flykka.errors import TraceSelectionError
from tests.bad_input.recorded import record_echo


class Frames(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "iframe"
        self.found.append(dict(attrs))


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return Trace.open(record_echo(tmp_path / "run.trace"))


def test_the_frame_contains_the_whole_page_and_allows_only_its_script(trace: Trace) -> None:
    diagram = trace.sequence_diagram(actors=["actor"])

    (frame,) = Frames(diagram._repr_mimebundle_()["text/html"]).found

    assert frame["srcdoc"] == diagram.html == trace.to_html(actors=["actor"])
    assert frame["sandbox"] == "allow-scripts"


def test_a_diagram_has_the_requested_height(trace: Trace) -> None:
    (frame,) = Frames(trace.sequence_diagram(height=900)._repr_mimebundle_()["text/html"]).found

    assert "height: 900px" in str(frame["style"])


def test_without_html_the_diagram_names_its_subject(trace: Trace) -> None:
    diagram = trace.sequence_diagram()

    assert diagram._repr_mimebundle_()["text/plain"].startswith("sequence diagram of run.trace: ")
    assert repr(diagram).startswith("<SequenceDiagram: sequence diagram of run.trace: ")


def test_an_empty_diagram_is_refused(trace: Trace) -> None:
    with pytest.raises(TraceSelectionError, match="no turn matches"):
        trace.sequence_diagram(actors=["nobody"])
