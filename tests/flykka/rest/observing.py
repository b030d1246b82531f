"""The part of an environment that is watched, without a cluster."""

from __future__ import annotations

from flykka.api.configuration.environment_options import EnvironmentOptions
from flykka.api.observation import Observation


def observation() -> Observation:
    """One whose program has said nothing yet."""
    made = Observation()
    made._options = EnvironmentOptions()
    return made
