"""The effects of a replayed turn, as the kernel has noted them, in the form in which a trace tells them."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast, get_args

from flykka.runtime.trace import records

if TYPE_CHECKING:
    from flykka.runtime.recording import Effect as Noted


def _kind(effect: type) -> str:
    """`start_timer` of `StartTimer`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", effect.__name__).lower()


_CLASSES: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    _kind(effect): (effect, tuple(field.name for field in fields(effect))) for effect in get_args(records.Effect)
}


def effect_of(noted: Noted) -> records.Effect:
    """A noted effect as a record: its operands are the fields, in their order."""
    effect, names = _CLASSES[noted[0]]
    return cast("records.Effect", effect(**dict(zip(names, noted[1:], strict=False))))
