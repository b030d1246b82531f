"""Folders of case files: `NN_area.json`, each with the cases of one area."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Case = dict[str, Any]

OPEN_CASES = Path(__file__).parent / "cases"


class UnknownWordError(ValueError):
    """Raised if a case uses a word that its adapter cannot translate."""


@dataclass(frozen=True, slots=True)
class CaseFile:
    name: str
    cases: tuple[Case, ...]

    @property
    def area(self) -> str:
        """The number at the start of the file name, such as `01`."""
        return self.name.partition("_")[0]


def case_files(folder: Path) -> list[CaseFile]:
    """Return every file of cases in `folder`, sorted by name.

    Raises:
        FileNotFoundError: the folder has no case files.
    """
    files = [
        CaseFile(path.stem, tuple(json.loads(path.read_text())["cases"])) for path in sorted(folder.glob("*.json"))
    ]
    if not files:
        raise FileNotFoundError(f"no file of cases (NN_area.json) in {folder}")
    return files


def known_cases() -> set[str]:
    """Return the ids of this repository's cases, as `area/id`."""
    return {f"{file.area}/{case['id']}" for file in case_files(OPEN_CASES) for case in file.cases}


def only_known_words(what: str, words: object, known: set[str]) -> None:
    assert isinstance(words, dict)
    unknown = words.keys() - known
    if unknown:
        raise UnknownWordError(f"{what}: {sorted(unknown)}")


def is_since(case: Case, *version: int) -> bool:
    """Return whether the case is about this version, such as `1, 11`, or a newer version."""
    return "since" in case and tuple(int(part) for part in str(case["since"]).split(".")) >= version
