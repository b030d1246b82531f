"""The sources of one job: looked at before it runs, and asked for their splits; what goes wrong names the operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flykka.spark_bridge.diagnosis.failures import serialized
from flykka.spark_bridge.errors import SourceError
from flykka.spark_bridge.operators.source import SourceCode

if TYPE_CHECKING:
    from flykka.actors.data_plane import SplitDiscovery
    from flykka.messages.graph.job_graph import JobGraph
    from flykka.messages.tasks.source import SplitsDiscovered
    from flykka.spark_bridge.operators.code_registry import CodeRegistry
    from flykka.spark_bridge.rows.filesystem import FileSystem


def check_sources(job_graph: JobGraph, registry: CodeRegistry, filesystem: FileSystem) -> None:
    """Raise `SourceError`, naming operator and file, where a source cannot read what it is to."""
    for vertex in job_graph.vertices:
        for operator in vertex.operators:
            code = registry.resolve(operator.ref)
            if isinstance(code, SourceCode):
                with _named(operator.ref.uid, registry):
                    code.source.check_input(operator.operator_id, filesystem)


class NamedDiscovery:
    """The discovery of one operator."""

    def __init__(self, discovery: SplitDiscovery, uid: str, registry: CodeRegistry) -> None:
        self._discovery = discovery
        self._uid = uid
        self._registry = registry
        self.interval_ms = discovery.interval_ms
        self.changed = discovery.changed

    def discover(self, position: bytes) -> SplitsDiscovered:
        """As the discovery does. Raises `SourceError` for whatever that raises."""
        with _named(self._uid, self._registry):
            return self._discovery.discover(position)


@contextmanager
def _named(uid: str, registry: CodeRegistry) -> Iterator[None]:
    """Tell of whatever is raised as a `SourceError`, of its own kind if it is one, with operator and line."""
    where, written = f"operator {registry.describe(uid)}", registry.user_line(uid)
    lines = () if written is None else (written,)
    try:
        yield
    except SourceError as refused:
        raise type(refused)(serialized(where, refused, lines).message) from refused
    except Exception as raised:
        told = serialized(f"{where} cannot look for its input", raised, lines)
        raise SourceError(told.message) from raised
