"""Plain text in columns, for terminals, files and `grep`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], alignment: str = "") -> Iterator[str]:
    """The header and the rows as lines, each column as wide as its widest cell.

    `alignment` has a `<` or a `>` for each column; without it all of them are to the left.
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    sides = alignment or "<" * len(header)
    for cells in (header, *rows):
        shaped = zip(cells, sides, widths, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, side, width in shaped).rstrip()
