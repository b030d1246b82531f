"""The options of `flykka run` that say what is done when something fails."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from flykka.errors import ProgramError
from flykka.messages.graph.job_graph import FailoverStrategyKind, RestartStrategyConfiguration
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


def add_recovery_options(group: argparse._ArgumentGroup, said: str) -> None:
    """Add them; `said` is how the other options begin to tell what holds without them."""
    group.add_argument(
        "--restart-strategy",
        metavar="STRATEGY",
        type=_restart_strategy,
        help="what is done after a failure: none, fixed-delay, failure-rate or exponential-delay, with their settings"
        f" behind commas, such as fixed-delay,attempts=3,delay=10s {said}, else with checkpoints exponential-delay, and"
        " without them none)",
    )
    group.add_argument(
        "--failover-strategy",
        choices=[kind.value for kind in FailoverStrategyKind],
        type=FailoverStrategyKind,
        help="which tasks are restarted: those of the region of the one that failed, or all of them"
        f" {said}, else region)",
    )


def _restart_strategy(text: str) -> RestartStrategyConfiguration:
    name, *told = text.split(",")
    if name not in _SETTINGS:
        raise argparse.ArgumentTypeError(f"there is no restart strategy {name!r}; there are {', '.join(_SETTINGS)}")
    kinds = _SETTINGS[name]
    settings: dict[str, Any] = {}
    for each in told:
        setting, is_given, value = each.partition("=")
        if setting not in kinds or not is_given:
            known = ", ".join(f"{known}=..." for known in kinds) or "none"
            raise argparse.ArgumentTypeError(f"{each!r} is no setting of {name}; its settings: {known}")
        try:
            settings[setting] = kinds[setting](value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{setting} of {name} must be a number, not {value!r}") from None
    if name == "failure-rate" and not {"failure_rate", "failure_interval"} <= settings.keys():
        raise argparse.ArgumentTypeError("failure-rate needs failure_rate=... and failure_interval=...")
    try:
        return _made(name, settings)
    except (ProgramError, DurationError) as refused:
        raise argparse.ArgumentTypeError(str(refused)) from refused


def _made(name: str, settings: dict[str, Any]) -> RestartStrategyConfiguration:
    # It takes a second to load, and `--help` should not have to wait for it.
    from flykka.api.restart_strategies import RestartStrategies

    match name:
        case "none":
            return RestartStrategies.no_restart()
        case "fixed-delay":
            return RestartStrategies.fixed_delay_restart(**settings)
        case "failure-rate":
            return RestartStrategies.failure_rate_restart(**settings)
        case _:
            return RestartStrategies.exponential_delay_restart(**settings)
