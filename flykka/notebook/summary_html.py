"""A stream or an environment as HTML: a title, its columns, and labelled lines."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from flykka.notebook.job_html import STYLE

if TYPE_CHECKING:
    from flykka.api.streams.summary import Summary


def summary_html(summary: Summary) -> str:
    """All of it. Every name and every text of the user's is escaped."""
    columns = ", ".join(f"{escape(name)} <span class='quiet'>{escape(kind)}</span>" for name, kind in summary.columns)
    lines = [("columns", columns)] if columns else []
    lines += [(label, escape(text)) for label, text in summary.facts]
    rows = "".join(
        f'<tr><td class="quiet">{escape(label)}</td><td class="wide">{text}</td></tr>' for label, text in lines
    )
    head = f'<div class="head"><span class="name">{escape(summary.title)}</span></div>'
    return f'{STYLE}<div class="flykka-job">{head}<table><tbody>{rows}</tbody></table></div>'
