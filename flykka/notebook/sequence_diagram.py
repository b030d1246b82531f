"""A sequence diagram in the output of a cell: its page in a frame of its own, with all that can be done to it."""

from __future__ import annotations

from html import escape

from flykka.notebook.shell import Bundle

HEIGHT = 560
"""Pixels."""

_STYLE = "display: block; box-sizing: border-box; width: 100%; border: 1px solid rgba(128, 128, 128, .3)"


class SequenceDiagram:
    """Made by `Trace.sequence_diagram`. `html` is the page: to be written to a file, or to be shown elsewhere."""

    def __init__(self, html: str, text: str, *, height: int = HEIGHT) -> None:
        self.html = html
        self.height = height
        self._text = text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """Called by IPython. The page's script runs, and can reach nothing but the page."""
        frame = (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" title="{escape(self._text)}" '
            f'style="{_STYLE}; height: {self.height}px"></iframe>'
        )
        return {"text/html": frame, "text/plain": self._text}

    def __repr__(self) -> str:
        return f"<SequenceDiagram: {self._text}>"
