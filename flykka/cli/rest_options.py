"""Options that say where HTTP requests are answered, and who may ask."""

from __future__ import annotations

import argparse

from flykka.rest.settings import RestSettings
from flykka.spark_bridge.connectors.extras import require

_SECURITY = ("rest_token_file", "rest_certificate", "rest_key")


def add_rest_options(group: argparse._ArgumentGroup, default: str, *, address: int | None = None) -> None:
    """Add them; `default` is what holds without an address, in words, and `address` that for the program."""
    what = (
        "where requests are answered; port 0 is any that is free, and without a host only this machine is answered"
        f" {default}"
    )
    group.add_argument("--rest", metavar="[HOST:]PORT", default=address, help=what)
    what = "with --rest: the file with the token that every request must bear; needed for any host but this machine"
    group.add_argument("--rest-token-file", metavar="FILE", help=what)
    group.add_argument("--rest-certificate", metavar="FILE", help="with --rest: TLS by this certificate (PEM)")
    group.add_argument("--rest-key", metavar="FILE", help="with --rest: its key")


def rest_settings(options: argparse.Namespace, what: str) -> RestSettings | None:
    """The interface that was asked for; None where no address was given. `what` is what needs the extra, in errors.

    Raises `ValueError` or `MissingExtraError`.
    """
    token_file, certificate, key = (getattr(options, name) for name in _SECURITY)
    if options.rest is not None:
        require("uvicorn", extra="web", what=what)
        return RestSettings.at(options.rest, token_file=token_file, certificate=certificate, key=key)
    if token_file or certificate or key:
        raise ValueError("--rest-token-file, --rest-certificate and --rest-key go with --rest")
    return None
