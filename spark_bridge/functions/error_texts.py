"""Values in error messages, and notes on exceptions that show where a user's function failed."""

from __future__ import annotations

NOTE = "flykka: "

_LONGEST = 200


def add_note(raised: BaseException, text: str) -> None:
    """Note where an exception was raised. The note is printed after the traceback."""
    raised.add_note(f"{NOTE}{text}")


def short_repr(value: object) -> str:
    """Return the repr of a value, truncated. If the repr raises, return the name of the value's type."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - another error is being reported
        return f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
