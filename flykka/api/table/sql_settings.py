"""SET: settings of the jobs of SQL, by the names that they have as methods of the environment."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from flykka.api.configuration.configuration import OPTIONS
from flykka.api.configuration.job_options import JOB_OPTIONS
from flykka.api.table.refusals import RefusedError
from flykka.errors import FlykkaError
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.sql.plan_node import Position
from flykka.spark_bridge.sql.tokens import Token, position_at, tokens

if TYPE_CHECKING:
    from flykka.api.table.sql_verbs import SqlVerbs

JOB_NAME = "job_name"
_FORM = "SET 'key' = 'value'"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOption:
    """SET 'key' = 'value', with the place of the key."""

    key: str
    value: str
    position: Position


SETTINGS = (JOB_NAME, *(option.name for option in JOB_OPTIONS))
_OF_FLINK = {
    "parallelism.default": "parallelism",
    "pipeline.name": JOB_NAME,
    "pipeline.max-parallelism": "max_parallelism",
    "execution.checkpointing.interval": "checkpoint_interval",
    "execution.checkpointing.dir": "checkpoint_dir",
    "state.checkpoints.dir": "checkpoint_dir",
    "state.savepoints.dir": "savepoint_dir",
    "execution.runtime-mode": "runtime_mode",
    "table.exec.state.ttl": "sql_state_ttl",
    "execution.savepoint.path": "from_savepoint",
}


def set_option(text: str) -> SetOption | None:
    """The SET of a text; None for another statement. Raises `RefusedError` where it is not of the form."""
    found = tokens(text)
    if not found or not found[0].says("SET"):
        return None
    start = position_at(text, found[0].start)
    equals = next((number for number, token in enumerate(found) if token.says("=")), None)
    if equals is None or equals < 2 or equals + 1 == len(found):
        raise RefusedError(f"a setting is {_FORM}; settings are {', '.join(SETTINGS)}", start)
    return SetOption(
        key=_said(text, found[1:equals]).lower(),
        value=_said(text, found[equals + 1 :]),
        position=position_at(text, found[1].start),
    )


def apply_option(settings: SqlVerbs, option: SetOption) -> None:
    """Set it; the name of the job is not for these settings. Raises `RefusedError`."""
    known = OPTIONS.get(option.key) if option.key in SETTINGS else None
    if known is None or known.apply is None:
        meant = _OF_FLINK.get(option.key) or next(iter(get_close_matches(option.key, SETTINGS, n=1)), None)
        hint = f" (did you mean {meant!r}?)" if meant else ""
        raise RefusedError(
            f"there is no setting {option.key!r}{hint}; there are {', '.join(SETTINGS)}", option.position
        )
    try:
        known.apply(settings, known.read(option.value))
    except (DurationError, FlykkaError, ValueError) as wrong:
        raise RefusedError(f"{option.key}: {wrong}", option.position) from None


def _said(text: str, found: tuple[Token, ...]) -> str:
    """The value of a single token; of several what is written."""
    return found[0].value if len(found) == 1 else text[found[0].start : found[-1].end]
