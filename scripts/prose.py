"""Counts odd words in the project's prose: `python scripts/prose.py [PATH ...]`; fewer are better.

Prose is docstrings, comments, messages to users, names of tests, pages of Markdown and comments of the Makefile,
without code in blocks or between backticks. `--list HABIT` shows the occurrences of a habit; `--sample KIND N --seed S`
draws texts for a reader to judge.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("actors", "flykka", "messages", "runtime", "spark_bridge")
KINDS = ("docstring", "comment", "page", "message", "test name")

HABITS = {
    "tell": r"tell|tells|telling|told",
    "say": r"say|says|saying|said",
    "behind": r"behind",
    "nobody": r"nobody|somebody",
    "go on": r"(?:go|goes|going|went|gone) on",
    "where": r"where",
    "who": r"who|whom",
    "none": r"none(?! of)",
    "is over": r"(?:is|are|was|were) over",
    "of which": r"of which|of whom",
    "what is": r"what (?:is|are|was|were|has|have|had)",
}
"""Habits of odd prose, by name: patterns of the words that show a habit, ignoring case."""
PATTERNS = {name: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for name, words in HABITS.items()}

CODE_BLOCK = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"``.+?``|`[^`\n]+`|\]\([^)]*\)|https?://\S+", re.DOTALL)
TABLE_RULE = re.compile(r"[\s:|-]*\|[\s:|-]*")
DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|pragma|pyright)")


@dataclass(frozen=True)
class Prose:
    """A text written for a reader: its kind, the file and line where it begins, and its words without code."""

    kind: str
    path: str
    line: int
    text: str

    def habits(self) -> Counter[str]:
        text = CODE.sub(" ", self.text)
        return Counter({name: len(pattern.findall(text)) for name, pattern in PATTERNS.items()})


def tracked_files(*paths: str) -> list[Path]:
    """Return the files below `paths` under version control, and new files that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in sorted(set(listing.splitlines())) if (ROOT / name).is_file()]


def read_prose(*paths: str) -> Iterator[Prose]:
    """Yield the prose of all files below `paths`, by default of the complete project."""
    for path in tracked_files(*paths):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py":
            yield from prose_of_python(name, path.read_text(encoding="utf-8"))
        elif path.suffix == ".md":
            yield from prose_of_markdown(name, path.read_text(encoding="utf-8"))
        elif path.name == "Makefile":
            yield from joined_comments(name, makefile_comments(path.read_text(encoding="utf-8")))


def prose_of_python(name: str, text: str) -> Iterator[Prose]:
    """Yield docstrings, comments, and names of tests; for product files also the messages."""
    tree = ast.parse(text)
    documentation = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(written)) as constant):
                documentation.add(constant)
                yield Prose("docstring", name, constant.lineno, written)
            case ast.FunctionDef(name=function) | ast.AsyncFunctionDef(name=function) if function.startswith("test_"):
                yield Prose("test name", name, node.lineno, function.removeprefix("test_").replace("_", " "))
    yield from joined_comments(name, python_comments(text))
    if name.split("/")[0] in PRODUCT:
        yield from messages(name, tree, documentation)


def messages(name: str, tree: ast.Module, documentation: set[ast.Constant]) -> Iterator[Prose]:
    """Yield strings of three or more words that are not documentation; values in f-strings become `{}`."""
    parts = {value for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=values):
                text = "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in values)
            case ast.Constant(value=str(written)) if node not in documentation and node not in parts:
                text = written
            case _:
                continue
        if len(re.findall(r"\b[a-z]+\b", text)) > 2 and " " in text.strip():
            yield Prose("message", name, node.lineno, text)


def python_comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of Python code, except directives to tools."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            yield token.start[0], token.string.lstrip("#! ")


def makefile_comments(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            yield number, line.lstrip("# ")


def joined_comments(name: str, lines: Iterable[tuple[int, str]]) -> Iterator[Prose]:
    begin, end, texts = 0, -1, list[str]()
    for number, text in lines:
        if texts and number != end + 1:
            yield Prose("comment", name, begin, " ".join(texts))
            texts = []
        begin, end = (begin if texts else number), number
        texts.append(text)
    if texts:
        yield Prose("comment", name, begin, " ".join(texts))


def prose_of_markdown(name: str, text: str) -> Iterator[Prose]:
    """Yield the paragraphs, list entries and table rows of a page, without code blocks."""
    text = CODE_BLOCK.sub(lambda block: "\n" * block.group().count("\n"), text)
    begin, lines = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        starts = re.match(r"\s*(?:[-*+] |\d+\. |#|\||$)", line)
        if starts and lines:
            yield Prose("page", name, begin, " ".join(lines))
            lines = []
        if line.strip() and not TABLE_RULE.fullmatch(line):
            begin = begin if lines else number
            lines.append(line.strip())


def counts(prose: Iterable[Prose]) -> dict[str, Counter[str]]:
    """Count each habit in each kind of prose."""
    found = {habit: Counter[str]() for habit in HABITS}
    for each in prose:
        for habit, count in each.habits().items():
            found[habit][each.kind] += count
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files and folders, all if none is given")
    parser.add_argument(
        "--list", choices=HABITS, metavar="HABIT", help=f"show the places of one of: {', '.join(HABITS)}"
    )
    parser.add_argument("--sample", nargs=2, metavar=("KIND", "N"), help=f"draw N texts of one of: {', '.join(KINDS)}")
    parser.add_argument("--seed", default="0", help="decides what is drawn")
    arguments = parser.parse_args()
    prose = list(read_prose(*arguments.paths))
    if arguments.list:
        shown = [each for each in prose if each.habits()[arguments.list]]
    elif arguments.sample:
        kind, number = arguments.sample
        candidates = [each for each in prose if each.kind == kind]
        shown = random.Random(arguments.seed).sample(candidates, min(int(number), len(candidates)))
    else:
        print(f"{'':10}", *(f"{kind:>10}" for kind in KINDS))
        for habit, found in counts(prose).items():
            print(f"{habit:10}", *(f"{found[kind]:10}" for kind in KINDS))
        return
    for each in shown:
        print(f"{each.path}:{each.line} ({each.kind}) {each.text.strip()}")


if __name__ == "__main__":
    main()
