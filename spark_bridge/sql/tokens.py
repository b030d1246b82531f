"""Tokens of SQL texts, by the rules of Spark's lexer, for all parsing that precedes Spark's.

This finds the ends of statements in a script, and clauses that Spark's grammar lacks. Such clauses are replaced by
blanks, so that Spark's positions are positions in the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flykka.spark_bridge.sql.plan_node import Position

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\r\n]*)
    |(?P<comment>/\*)
    |(?P<text>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<name>`(?:[^`]|``)*`)
    |(?P<word>\w+)
    |(?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_NOT_A_BREAK = re.compile(r"[^\r\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token of a kind: a quoted `text`, a `name` in backquotes, a `word` (also a number), or a `symbol`."""

    kind: str
    raw: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.raw)

    @property
    def value(self) -> str:
        match self.kind:
            case "name":
                return self.raw[1:-1].replace("``", "`")
            case "text" if self.raw[0] in "rR":
                return self.raw[2:-1]
            case "text":
                quote = self.raw[0]
                return re.sub(r"\\(.)", r"\1", self.raw[1:-1].replace(quote * 2, quote), flags=re.DOTALL)
        return self.raw

    def matches(self, *words: str) -> bool:
        return self.kind in ("word", "symbol") and self.raw.upper() in words


def tokens(text: str) -> tuple[Token, ...]:
    result, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None, "the text cannot be split into tokens"
        kind = str(match.lastgroup)
        if kind == "comment":
            place = _end_of_comment(text, match.end())
            continue
        if kind != "space":
            result.append(Token(kind=kind, raw=match.group(), start=place))
        place = match.end()
    return tuple(result)


def begins_with(sequence: Sequence[Token], *words: str) -> bool:
    return len(sequence) >= len(words) and all(
        token.matches(word) for token, word in zip(sequence, words, strict=False)
    )


def position_at(text: str, place: int) -> Position:
    before = text[:place]
    return Position(line=before.count("\n") + 1, column=place - (before.rfind("\n") + 1) + 1)


def blanked(text: str, start: int, end: int) -> str:
    """Return the text with a range replaced by spaces, so that the other tokens keep their positions."""
    return text[:start] + _NOT_A_BREAK.sub(" ", text[start:end]) + text[end:]


def _end_of_comment(text: str, place: int) -> int:
    """Return the end of a comment. Comments nest, as in Spark. An unclosed comment extends to the end of the text."""
    depth = 1
    while depth:
        match = _COMMENT.search(text, place)
        if match is None:
            return len(text)
        depth += 1 if match.group() == "/*" else -1
        place = match.end()
    return place
