"""Restart strategies as a text: `fixed-delay,attempts=3,delay=10s`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flykka.messages.graph.job_graph import RestartStrategyConfiguration
from flykka.runtime.errors import DurationError

_SETTINGS: Mapping[str, Mapping[str, Callable[[str], object]]] = {
    "none": {},
    "fixed-delay": {"attempts": int, "delay": str},
    "failure-rate": {"failure_rate": int, "failure_interval": str, "delay": str},
    "exponential-delay": {
        "initial_backoff": str,
        "max_backoff": str,
        "backoff_multiplier": float,
        "reset_backoff_threshold": str,
        "jitter_factor": float,
        "max_same_failures": int,
    },
}


def restart_strategy(said: Any) -> RestartStrategyConfiguration:
    """The strategy of a text, or the one that it is already. Raises `ValueError` or `ProgramError`."""
    if not isinstance(said, str):
        return _checked(said)
    name, *told = (word.strip() for word in said.split(","))
    if name not in _SETTINGS:
        raise ValueError(f"there is no restart strategy {name!r}; there are {', '.join(_SETTINGS)}")
    kinds = _SETTINGS[name]
    settings: dict[str, Any] = {}
    for each in told:
        setting, is_given, value = each.partition("=")
        if setting not in kinds or not is_given:
            known = ", ".join(f"{known}=..." for known in kinds) or "none"
            raise ValueError(f"{each!r} is no setting of {name}; its settings: {known}")
        try:
            settings[setting] = kinds[setting](value)
        except ValueError:
            raise ValueError(f"{setting} of {name} must be a number, not {value!r}") from None
    if name == "failure-rate" and not {"failure_rate", "failure_interval"} <= settings.keys():
        raise ValueError("failure-rate needs failure_rate=... and failure_interval=...")
    try:
        return _made(name, settings)
    except DurationError as refused:
        raise ValueError(str(refused)) from refused


# What follows takes a second to load, and `--help` should not have to wait for it.
def _checked(said: Any) -> RestartStrategyConfiguration:
    from flykka.api.configuration.restart_strategies import check_restart_strategy

    check_restart_strategy(said, is_default=True)
    strategy: RestartStrategyConfiguration = said
    return strategy


def _made(name: str, settings: dict[str, Any]) -> RestartStrategyConfiguration:
    from flykka.api.configuration.restart_strategies import RestartStrategies

    match name:
        case "none":
            return RestartStrategies.no_restart()
        case "fixed-delay":
            return RestartStrategies.fixed_delay_restart(**settings)
        case "failure-rate":
            return RestartStrategies.failure_rate_restart(**settings)
        case _:
            return RestartStrategies.exponential_delay_restart(**settings)
