"""The interface for connectors: the base classes of sources and sinks. `testing` contains tests for connectors.

Not here: flykka's own connectors (`spark_bridge/connectors`).
"""

from __future__ import annotations

from flykka.actors.data_plane import SplitDiscovery
from flykka.messages.tasks.source import SerializedSplit, SourceSplit, SplitsDiscovered
from flykka.messages.wire.ids import OperatorId, SplitId
from flykka.spark_bridge.connectors.connector import Connector, connectors
from flykka.spark_bridge.connectors.transactional import Transaction, TransactionalSink
from flykka.spark_bridge.errors import SinkError, SourceError
from flykka.spark_bridge.program.sink import Sink, SinkContext
from flykka.spark_bridge.program.sink_writer import SinkWriter, Staged
from flykka.spark_bridge.program.source import Boundedness, Source, SplitNumbers
from flykka.spark_bridge.rows.filesystem import FileSystem
from flykka.spark_bridge.rows.marks import PARTITION

__all__ = [
    "PARTITION",
    "Boundedness",
    "Connector",
    "FileSystem",
    "OperatorId",
    "SerializedSplit",
    "Sink",
    "SinkContext",
    "SinkError",
    "SinkWriter",
    "Source",
    "SourceError",
    "SourceSplit",
    "SplitDiscovery",
    "SplitId",
    "SplitNumbers",
    "SplitsDiscovered",
    "Staged",
    "Transaction",
    "TransactionalSink",
    "connectors",
]
