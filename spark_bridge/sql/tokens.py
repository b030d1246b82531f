"""Tokens of SQL texts, by the rules of Spark's lexer: for what is to be known of a text before Spark's parser sees it.

That is where a statement of a script ends, and the clauses that Spark's grammar does not have. What is cut out of a
text is blanked: so the places that Spark names are those of the whole text.
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
    """A token: a `text` in quotes, a `name` in backquotes, a `word` (numbers too), or a `symbol`."""

    kind: str
    written: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.written)

    @property
    def value(self) -> str:
        """The text that it stands for, without its quotes."""
        match self.kind:
            case "name":
                return self.written[1:-1].replace("``", "`")
            case "text" if self.written[0] in "rR":
                return self.written[2:-1]
            case "text":
                quote = self.written[0]
                return re.sub(r"\\(.)", r"\1", self.written[1:-1].replace(quote * 2, quote), flags=re.DOTALL)
        return self.written

    def says(self, *words: str) -> bool:
        """True if it is one of these words or symbols, which are given in capitals."""
        return self.kind in ("word", "symbol") and self.written.upper() in words


def tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a text, without spaces and comments."""
    found, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None, "a symbol is any character"
        kind = str(match.lastgroup)
        if kind == "comment":
            place = _end_of_comment(text, match.end())
            continue
        if kind != "space":
            found.append(Token(kind=kind, written=match.group(), start=place))
        place = match.end()
    return tuple(found)


def say(found: Sequence[Token], *words: str) -> bool:
    return len(found) >= len(words) and all(token.says(word) for token, word in zip(found, words, strict=False))


def position_at(text: str, place: int) -> Position:
    """The line and the column of a place in a text."""
    before = text[:place]
    return Position(line=before.count("\n") + 1, column=place - (before.rfind("\n") + 1) + 1)


def blanked(text: str, start: int, end: int) -> str:
    """The text with spaces from one place to another: everything else stays where it is."""
    return text[:start] + _NOT_A_BREAK.sub(" ", text[start:end]) + text[end:]


def _end_of_comment(text: str, place: int) -> int:
    """Comments nest, as in Spark. What is not closed goes to the end of the text."""
    depth = 1
    while depth:
        match = _COMMENT.search(text, place)
        if match is None:
            return len(text)
        depth += 1 if match.group() == "/*" else -1
        place = match.end()
    return place
