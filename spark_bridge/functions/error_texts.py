"""Texts for errors: values, and notes with the place of a failure in a function."""

from __future__ import annotations

NOTE = "flykka: "
"""Prefix of the notes added to exceptions of users' functions."""

_LONGEST = 200


def add_note(raised: BaseException, text: str) -> None:
    """Add a note to an exception with the place where it was raised; it is printed after the traceback."""
    raised.add_note(f"{NOTE}{text}")


def short_repr(value: object) -> str:
    """Return the repr of a value, cut short; if its repr raises, the name of its type."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - another error is being reported
        return f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
