"""The explanation of a job as HTML, in the style of the job's own picture."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from flykka.explanation.conclusion import JobWhy
from flykka.notebook.job_html import STYLE, status_dot

_HEADER = ("task", "state", "on", "is", "for", "waits for")


def why_html(why: JobWhy) -> str:
    """The answer, the facts and the attempts. Every name and every text of the user's is escaped."""
    facts = "".join(
        f'<tr><td class="quiet">{escape(label)}</td><td class="wide">{escape(text)}</td></tr>'
        for label, text in why.facts
    )
    parts = [f'<div class="answer">{escape(why.answer)}</div>', f"<table><tbody>{facts}</tbody></table>"]
    if why.attempts:
        header = "".join(f"<th>{title}</th>" for title in _HEADER)
        rows = "".join(
            f'<tr><td class="name-of-task">{escape(each.name)}</td>'
            + _cells((status_dot(each.state), *map(escape, (each.where, each.activity, each.lasting))))
            + f'<td class="wide">{escape(each.waits_for)}</td></tr>'
            for each in why.attempts
        )
        parts.append(f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>")
    if why.left_out:
        parts.append(f'<div class="quiet">and {why.left_out:,} more tasks</div>')
    return f'{STYLE}<div class="flykka-job">{"".join(parts)}</div>'


def _cells(cells: Iterable[str]) -> str:
    return "".join(f"<td>{cell}</td>" for cell in cells)
