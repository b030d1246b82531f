"""The exception history of a job as HTML, in the style of the job's own picture."""

from __future__ import annotations

from html import escape

from flykka.explanation.job_exceptions import JobExceptionHistory, also, outcome, place
from flykka.explanation.user_stack import told_whole
from flykka.messages.monitoring.exception_history import RootExceptionHistoryEntry
from flykka.notebook.job_html import STYLE


def exception_history_html(history: JobExceptionHistory) -> str:
    """A row for each failure; what it says in full opens at a click. Every text of the user's is escaped."""
    return f'{STYLE}<div class="flykka-job">{exceptions_table(history)}</div>'


def exceptions_table(history: JobExceptionHistory) -> str:
    """The table alone."""
    if not history:
        return "no failures"
    left_out = f'<div class="quiet">and {history.suppressed:,} before these</div>' if history.suppressed else ""
    header = '<tr><th>failed after</th><th>task</th><th class="wide">of</th><th>then</th></tr>'
    rows = "".join(_row(entry, history.began_ms) for entry in history)
    return f"{left_out}<table><thead>{header}</thead><tbody>{rows}</tbody></table>"


def _row(entry: RootExceptionHistoryEntry, began_ms: int) -> str:
    cause = entry.root.cause
    first, *rest = told_whole(cause) or [""]
    full = "\n".join(text for text in ("\n".join(rest), cause.stack_trace) if text.strip())
    said = f"{escape(cause.type_name)}: {escape(first)}{escape(also(entry))}"
    told = f"<details><summary>{said}</summary><pre>{escape(full)}</pre></details>" if full else said
    at = f"{(entry.root.timestamp_ms - began_ms) / 1_000:.2f} s"
    where = escape(place(entry).removesuffix(": ")) or "the job"
    return f'<tr><td>{at}</td><td>{where}</td><td class="wide">{told}</td><td>{escape(outcome(entry))}</td></tr>'
