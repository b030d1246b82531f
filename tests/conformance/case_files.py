"""The cases of one area, as they lie in `cases/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Case = dict[str, Any]

_CASES = Path(__file__).parent / "cases"


class UnknownWordError(ValueError):
    """A case says something that its adapter has no translation for."""


def cases_of(area: str) -> list[Case]:
    """Every case of the file `<area>.json`."""
    cases: list[Case] = json.loads((_CASES / f"{area}.json").read_text())["cases"]
    return cases


def only_known_words(what: str, words: object, known: set[str]) -> None:
    """Raise `UnknownWordError` where a mapping has keys that the adapter does not know."""
    assert isinstance(words, dict)
    unknown = words.keys() - known
    if unknown:
        raise UnknownWordError(f"{what}: {sorted(unknown)}")
