"""Values in texts of errors."""

from __future__ import annotations

_LONGEST = 200


def shown(value: object) -> str:
    """Return the representation of a value, cut short; a value that has none is named by its type."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the error to be told is another one
        return f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
