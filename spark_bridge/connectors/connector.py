"""Connector: how a connector presents itself. Entry points of the group `flykka.connectors` name those there are."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec

from flykka.spark_bridge.errors import MissingExtraError, SparkBridgeError

GROUP = "flykka.connectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector. `source` and `sink` are the names of its classes as they are imported; None where it has none.

    `reads` and `writes` say with which guarantee, `library` is the module that must be installed, and `extra` what to
    install for it, as in `pip install 'flykka[kafka]'`. `tested_with` is what its tests run against.
    """

    name: str
    source: str | None = None
    reads: str = ""
    sink: str | None = None
    writes: str = ""
    library: str | None = None
    extra: str | None = None
    tested_with: str = ""

    @property
    def is_installed(self) -> bool:
        """True if its library is there."""
        return self.library is None or find_spec(self.library) is not None


def connectors() -> tuple[Connector, ...]:
    """The connectors that packages on this machine declare, by name.

    Raises:
        SparkBridgeError: what an entry point names is no connector, or cannot be imported.
    """
    found: dict[str, Connector] = {}
    for entry in entry_points(group=GROUP):
        try:
            connector = entry.load()
        except (ImportError, AttributeError) as broken:
            raise SparkBridgeError(
                f"the connector {entry.name!r} ({entry.value}) cannot be loaded: {broken}"
            ) from broken
        if not isinstance(connector, Connector):
            raise SparkBridgeError(f"the connector {entry.name!r} ({entry.value}) is no flykka.connectors.Connector")
        found.setdefault(connector.name, connector)
    return tuple(found[name] for name in sorted(found))


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
