"""The explanation as text: the answer in the first line, then what it rests on, no more than a screen."""

from __future__ import annotations

from collections.abc import Sequence

from flykka.explanation.conclusion import JobWhy

_LABEL = 13
_HEADER = ("task", "state", "on", "is", "for", "waits for")


def why_text(why: JobWhy) -> str:
    """All of it; lines are as long as they are."""
    lines = [why.answer, ""]
    lines += [f"{label:<{_LABEL}}{text}" for label, text in why.facts]
    if why.attempts:
        rows = [
            (each.name, each.state, each.where, each.activity, each.lasting, each.waits_for) for each in why.attempts
        ]
        lines += ["", *_table([_HEADER, *rows])]
    if why.left_out:
        lines.append(f"and {why.left_out:,} more tasks")
    return "\n".join(line.rstrip() for line in lines)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
