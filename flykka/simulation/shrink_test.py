"""Generates a test from a failing scenario: it fails until the bug is fixed, and remains as a regression test."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill

from flykka.simulation.scenario import Scenario
from flykka.simulation.scenario_form import PythonSource
from flykka.simulation.shrink import Shrunk, law_of

_LINE = 120
_BEGIN = len("SCENARIO = ")


def file_name(origin: Scenario, shrunk: Shrunk) -> str:
    return f"test_{_slug(shrunk)}_seed_{origin.seed}.py"


def test_source(origin: Scenario, shrunk: Shrunk) -> str:
    python = PythonSource()
    scenario = python.expression(shrunk.scenario, room=_LINE - _BEGIN)
    imports = {*python.imports, ("flykka.simulation.simulation", "run")}
    origin_text = (
        f"Found by simulation from seed {origin.seed}, then made smaller. The violation: {shrunk.violation.text}"
    )
    docstring = fill(origin_text.replace("\\", "/").replace('"', "'"), _LINE - 6, break_long_words=False)
    return "\n".join(
        (
            f'"""{docstring}\n"""' if "\n" in docstring else f'"""{docstring}"""',
            "",
            "from __future__ import annotations",
            "",
            *_import_lines(imports),
            "",
            f"SCENARIO = {scenario}",
            "",
            "",
            f"def test_no_law_of_{_slug(shrunk)}_is_broken() -> None:",
            "    assert run(SCENARIO).violations == ()",
            "",
        )
    )


def write_test(folder: Path, origin: Scenario, shrunk: Shrunk) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(origin, shrunk)
    path.write_text(test_source(origin, shrunk), encoding="utf-8")
    return path


def _slug(shrunk: Shrunk) -> str:
    return re.sub(r"\W+", "_", law_of(shrunk.violation)[0]).strip("_")


def _import_lines(imports: set[tuple[str, str]]) -> list[str]:
    lines: list[str] = []
    for module in sorted({module for module, _ in imports}):
        names = sorted(name for imported, name in imports if imported == module)
        line = f"from {module} import {', '.join(names)}"
        if len(line) <= _LINE:
            lines.append(line)
        else:
            lines += [f"from {module} import (", *(f"    {name}," for name in names), ")"]
    return lines
