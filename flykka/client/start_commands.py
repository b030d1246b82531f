"""Wordings of a start for refusals: options of `flykka run`, or calls in Python."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCommands:
    """The commands, as they are typed in; `check` is that which tells whether a checkpoint fits, where there is one."""

    from_checkpoint: str
    fresh: str
    overwrite: Callable[[Sequence[str]], str]
    check: str | None = None


def _options(folders: Sequence[str]) -> str:
    return " ".join(f"--overwrite {shlex.quote(folder)}" for folder in folders)


def _setter(folders: Sequence[str]) -> str:
    return f"env.overwrite({', '.join(map(repr, folders))})"


COMMAND_LINE = StartCommands(
    from_checkpoint="--from-checkpoint PATH",
    fresh="--fresh",
    overwrite=_options,
    check="`flykka savepoint check PATH APP.py`",
)
PYTHON = StartCommands(
    from_checkpoint="env.from_checkpoint(PATH)", fresh="env.from_checkpoint(None)", overwrite=_setter
)
