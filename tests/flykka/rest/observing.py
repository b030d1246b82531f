"""The view of an environment's cluster, without a cluster."""

from __future__ import annotations

from flykka.api.configuration.resolved_options import EnvironmentOptions
from flykka.api.observation import Observation


def empty_observation() -> Observation:
    return Observation(EnvironmentOptions())
