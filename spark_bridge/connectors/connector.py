"""Descriptions of connectors, which entry points of the group `flykka.connectors` declare."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec

from flykka.spark_bridge.errors import MissingExtraError, SparkBridgeError

GROUP = "flykka.connectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector. `source` and `sink` are the names of its classes for imports, or None.

    `reads` and `writes` describe its guarantees. `library` is the module that must be installed, and `extra` the
    argument for installing it, such as `pip install 'flykka[kafka]'`. `tested_with` is the system used in its tests.
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
        """True if the connector's library is installed."""
        return self.library is None or find_spec(self.library) is not None


def connectors() -> tuple[Connector, ...]:
    """Return the connectors that installed packages declare, by name.

    Raises:
        SparkBridgeError: an entry point does not name a connector, or cannot be imported.
    """
    by_name: dict[str, Connector] = {}
    for entry in entry_points(group=GROUP):
        try:
            connector = entry.load()
        except (ImportError, AttributeError) as broken:
            raise SparkBridgeError(
                f"the connector {entry.name!r} ({entry.value}) cannot be loaded: {broken}"
            ) from broken
        if not isinstance(connector, Connector):
            raise SparkBridgeError(f"the connector {entry.name!r} ({entry.value}) is not a flykka.connectors.Connector")
        by_name.setdefault(connector.name, connector)
    return tuple(by_name[name] for name in sorted(by_name))


def require(module: str, *, extra: str, what: str) -> None:
    if not _is_there(module):
        raise MissingExtraError(f"{what} needs {module}, which is not installed: pip install 'flykka[{extra}]'")


def _is_there(module: str) -> bool:
    package = module.rpartition(".")[0]
    return (not package or _is_there(package)) and find_spec(module) is not None
