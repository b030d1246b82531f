"""The sources of one job: checks before it runs, and the discovery of splits. Errors name the operator."""

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
    for vertex in job_graph.vertices:
        for operator in vertex.operators:
            code = registry.resolve(operator.ref)
            if isinstance(code, SourceCode):
                with _named(operator.ref.uid, registry):
                    code.source.check_input(operator.operator_id, filesystem)


class NamedDiscovery:
    def __init__(self, discovery: SplitDiscovery, uid: str, registry: CodeRegistry) -> None:
        self._discovery = discovery
        self._uid = uid
        self._registry = registry
        self.interval_ms = discovery.interval_ms
        self.changed = discovery.changed

    def discover(self, position: bytes) -> SplitsDiscovered:
        """Discover splits. Raises `SourceError` for any exception."""
        with _named(self._uid, self._registry):
            return self._discovery.discover(position)


@contextmanager
def _named(uid: str, registry: CodeRegistry) -> Iterator[None]:
    """Convert exceptions to a `SourceError`, or to the same subclass, whose message names operator and line."""
    where, user_line = f"operator {registry.describe(uid)}", registry.user_line(uid)
    lines = () if user_line is None else (user_line,)
    try:
        yield
    except SourceError as refused:
        raise type(refused)(serialized(where, refused, lines).message) from refused
    except Exception as raised:
        failure = serialized(f"{where} cannot list its input", raised, lines)
        raise SourceError(failure.message) from raised
