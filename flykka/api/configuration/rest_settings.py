"""Derives the settings of the REST interface from options."""

from __future__ import annotations

from flykka.api.configuration.option import Values
from flykka.errors import ConfigurationError
from flykka.rest.settings import RestSettings
from flykka.spark_bridge.connectors.connector import require

_PREFIX = "rest_"


def rest_settings(values: Values, what: str = "the REST interface") -> RestSettings | None:
    """Return the REST settings, or None if no address is set. `what` names the feature in a MissingExtraError.

    Raises:
        MissingExtraError: the extra `web` is not installed.
        ConfigurationError: the address cannot be parsed or needs a token, or only one of certificate and key is set.
    """
    if "rest" not in values:
        return None
    require("uvicorn", extra="web", what=what)
    more = {name.removeprefix(_PREFIX): value for name, value in values.items() if name.startswith(_PREFIX)}
    try:
        return RestSettings.at(values["rest"], **more)
    except ValueError as refused:
        raise ConfigurationError(str(refused)) from None
