"""Texts of errors: values in them, and notes that say where a function was."""

from __future__ import annotations

NOTE = "flykka: "
"""The beginning of the notes that exceptions of users' functions get."""

_LONGEST = 200


def note(raised: BaseException, text: str) -> None:
    """Note at an exception where it was raised; it stands behind the traceback."""
    raised.add_note(f"{NOTE}{text}")


def shown(value: object) -> str:
    """Return the representation of a value, cut short; a value that has none is named by its type."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - another error is being reported
        return f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
