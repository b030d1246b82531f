"""Trace, the recorded run of the public API, with its stories and diagrams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flykka.runtime.trace.file.reader import TraceReader
from flykka.traces.attempt_story import attempt_story
from flykka.traces.checkpoint_story import checkpoint_story
from flykka.traces.diagram import HTML_LINES, MERMAID_LINES, Diagram, View, diagram_of
from flykka.traces.job_story import job_story
from flykka.traces.mermaid import mermaid
from flykka.traces.page import HEIGHT, SequenceDiagram, diagram_page
from flykka.traces.story import Story

if TYPE_CHECKING:
    from flykka.replay.job_fork import JobSession


class Trace(TraceReader):
    """A recorded run. Only the header is kept in memory. Every iteration reads the file from its beginning."""

    def at(self, number: int, *, modules: Iterable[str] = ()) -> JobSession:
        """Replay the run up to and including turn `number`: `trace.at(142).state("/user/job-manager")`.

        Args:
            number: the number of the turn.
            modules: modules from which the `Replayer` may load actors.

        Raises:
            ReplaySessionError: there is no such turn.
        """
        # Imported here because actors take a second to load, and stories and diagrams do not need them.
        from flykka.replay.replayer import Replayer

        session = Replayer(modules=modules).session(self)
        session.at(number)
        return session

    def story(self, *, checkpoint: int | None = None, attempt: str | None = None, job: str | None = None) -> Story:
        """Return the story of one checkpoint, one attempt or one job, in chronological order.

        Without arguments the subject is the job, if the trace has only one.

        Args:
            checkpoint: the checkpoint id. If several jobs have a checkpoint with this id, `job` selects one.
            attempt: the attempt id, or a text that only this attempt's id, name or actor path contains.
            job: the job id, or a prefix of it.

        Raises:
            TraceSelectionError: the trace has no such subject, or more than one.
            ValueError: more than one subject was requested.
        """
        return story_of(self, checkpoint=checkpoint, attempt=attempt, job=job)

    def to_mermaid(
        self,
        *,
        actors: Iterable[str] = (),
        collapse: Iterable[str] = (),
        first: int | None = None,
        last: int | None = None,
        checkpoint: int | None = None,
    ) -> str:
        """Return a `sequenceDiagram` of at most 300 lines. The arguments are those of `flykka trace diagram`.

        Raises:
            TraceSelectionError: the selection is empty, or has too many lines.
        """
        return mermaid(self._drawn(MERMAID_LINES, actors, collapse, first, last, checkpoint))

    def to_html(
        self,
        *,
        actors: Iterable[str] = (),
        collapse: Iterable[str] = (),
        first: int | None = None,
        last: int | None = None,
        checkpoint: int | None = None,
    ) -> str:
        """Return a page with a sequence diagram of at most 50,000 lines. Raises the errors of `to_mermaid`."""
        return diagram_page(self._drawn(HTML_LINES, actors, collapse, first, last, checkpoint), self.path.name)

    def sequence_diagram(
        self,
        *,
        actors: Iterable[str] = (),
        collapse: Iterable[str] = (),
        first: int | None = None,
        last: int | None = None,
        checkpoint: int | None = None,
        height: int = HEIGHT,
    ) -> SequenceDiagram:
        """Return the page of `to_html` for a notebook cell, `height` pixels high. Raises the errors of `to_mermaid`."""
        diagram = self._drawn(HTML_LINES, actors, collapse, first, last, checkpoint)
        text = f"sequence diagram of {self.path.name}: {len(diagram.lines):,} lines, {len(diagram.lifelines):,} actors"
        return SequenceDiagram(diagram_page(diagram, self.path.name), text, height=height)

    def _drawn(
        self,
        most: int,
        actors: Iterable[str],
        collapse: Iterable[str],
        first: int | None,
        last: int | None,
        checkpoint: int | None,
    ) -> Diagram:
        view = View(actors=tuple(actors), collapse=tuple(collapse), first=first, last=last, checkpoint=checkpoint)
        return diagram_of(self, view, most=most)


def story_of(
    trace: TraceReader, *, checkpoint: int | None = None, attempt: str | None = None, job: str | None = None
) -> Story:
    """Return the story of the selected subject of a trace. Raises the errors of `Trace.story`."""
    if checkpoint is not None and attempt is None:
        return checkpoint_story(trace, checkpoint, job)
    if attempt is not None and checkpoint is None and job is None:
        return attempt_story(trace, attempt)
    if attempt is None:
        return job_story(trace, job or "")
    raise ValueError("a story is of one checkpoint, one attempt or one job: pass checkpoint=, attempt= or job=")
