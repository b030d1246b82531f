"""Libraries that only some connectors need: each is an extra of flykka's, and is asked for when it is used."""

from __future__ import annotations

from importlib.util import find_spec

from flykka.spark_bridge.errors import MissingExtraError


def require(module: str, *, extra: str, what: str) -> None:
    """Look for a library that `what` needs.

    Raises:
        MissingExtraError: it is not installed; the text says how to do that.
    """
    if not _is_there(module):
        raise MissingExtraError(f"{what} needs {module}, which is not installed: pip install 'flykka[{extra}]'")


def _is_there(module: str) -> bool:
    package = module.rpartition(".")[0]
    return (not package or _is_there(package)) and find_spec(module) is not None
