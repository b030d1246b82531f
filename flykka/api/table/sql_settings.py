"""SET: settings of the jobs of SQL, by the names that they have as methods of the environment."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from flykka.api.configuration.options import OPTIONS
from flykka.api.table.refusals import RefusedError
from flykka.errors import FlykkaError
from flykka.runtime.errors import DurationError
from flykka.spark_bridge.sql.plan_node import Position
from flykka.spark_bridge.sql.tokens import Token, position_at, tokens

if TYPE_CHECKING:
    from flykka.api.job_settings import JobSettings

JOB_NAME = "job_name"
_FORM = "SET 'key' = 'value'"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOption:
    """SET 'key' = 'value', with the place of the key."""

    key: str
    value: str
    position: Position


_OF_JOBS = {
    name: option for name, option in OPTIONS.items() if option.meaning.sets is not None and option.meaning.field is None
}
SETTINGS = (JOB_NAME, *_OF_JOBS)
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


def with_option(settings: JobSettings, option: SetOption) -> JobSettings:
    """The settings with it; the name of the job is not for these settings. Raises `RefusedError`."""
    known = _OF_JOBS.get(option.key)
    if known is None:
        meant = _OF_FLINK.get(option.key) or next(iter(get_close_matches(option.key, SETTINGS, n=1)), None)
        hint = f" (did you mean {meant!r}?)" if meant else ""
        raise RefusedError(
            f"there is no setting {option.key!r}{hint}; there are {', '.join(SETTINGS)}", option.position
        )
    try:
        return known.applied(settings, known.form.read(option.value))
    except (DurationError, FlykkaError, ValueError) as wrong:
        raise RefusedError(f"{option.key}: {wrong}", option.position) from None


def _said(text: str, found: tuple[Token, ...]) -> str:
    """The value of a single token; of several what is written."""
    return found[0].value if len(found) == 1 else text[found[0].start : found[-1].end]
