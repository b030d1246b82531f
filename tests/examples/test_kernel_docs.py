"""Tests the pages about the actor kernel: their code runs in separate interpreters and prints the shown output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flykka.runtime
from flykka.runtime import Actor, ActorContext, Props
from flykka.runtime.testing import SeededSystem
from flykka.runtime.time.timers import Timers
from tests.layout.sources import ROOT

PAGES = [ROOT / "docs" / name for name in ("kernel.md", "coming_from_pykka_and_akka.md")]
LONG_ENOUGH = 30


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Return the fenced blocks of a language, with the number of lines above each."""
    text = page.read_text(encoding="utf-8")
    matches = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    return [(text[: block.start(1)].count("\n"), block[1]) for block in matches]


def program(page: Path) -> str:
    """Return all snippets of a page as one program at their own lines, so that a traceback shows the page's line."""
    lines: list[str] = []
    for above, snippet in blocks(page, "python"):
        lines += [""] * (above - len(lines)) + snippet.splitlines()
    return "\n".join(lines) + "\n"


def anchors(page: Path) -> set[str]:
    """Return the valid fragments of links to a page: no fragment, or one of its headings. Return an empty set if the
    page does not exist.
    """
    if not page.is_file():
        return set()
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {"", *(re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings)}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_of_a_page_print_the_shown_output(page: Path, tmp_path: Path) -> None:
    script = tmp_path / f"{page.stem}.py"
    script.write_text(program(page), encoding="utf-8")

    run = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        check=False,
    )

    assert run.stdout == "".join(output for _, output in blocks(page, "text")), run.stderr
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    links = [link.partition("#") for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text)]
    lost = [path or anchor for path, _, anchor in links if anchor not in anchors(page.parent / path if path else page)]

    assert links
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_names_on_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    with SeededSystem() as system:
        ref = system.spawn(Props(Actor), "actor")
        objects: dict[str, object] = {"context": ActorContext, "timers": Timers, "system": system, "ref": ref}
        called = {(name, attribute) for name in objects for attribute in re.findall(rf"\b{name}\.([a-z_]+)\b", text)}
        unknown = [f"{name}.{attribute}" for name, attribute in called if not hasattr(objects[name], attribute)]

    assert len(called) > 20
    assert sorted(unknown) == []


def test_the_pages_mention_every_public_kernel_name() -> None:
    text = (ROOT / "docs" / "kernel.md").read_text(encoding="utf-8")

    untold = [name for name in flykka.runtime.__all__ if not re.search(rf"\b{name}\b", text)]

    assert untold == []
