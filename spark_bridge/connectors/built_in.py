"""The connectors that come with flykka."""

from __future__ import annotations

from flykka.spark_bridge.connectors.connector import Connector

FILES = Connector(
    name="files",
    source="flykka.FileSource",
    reads="bounded or continuous, exactly once",
    sink="flykka.FileSink",
    writes="exactly once",
    tested_with="local folders",
)
DATAGEN = Connector(
    name="datagen",
    source="flykka.DataGenSource",
    reads="bounded or continuous, exactly once",
    tested_with="itself",
)
CONSOLE = Connector(name="console", sink="flykka.ConsoleSink", writes="at least once, at once", tested_with="itself")
FOREACH_BATCH = Connector(
    name="foreach-batch",
    sink="flykka.ForeachBatchSink",
    writes="at least once, the same rows under the same id",
    tested_with="functions",
)
KAFKA = Connector(
    name="kafka",
    source="flykka.KafkaSource",
    reads="bounded or continuous, exactly once",
    sink="flykka.KafkaSink",
    writes="exactly once for readers of committed records, or at least once",
    library="confluent_kafka",
    extra="kafka",
    tested_with="the broker of noida-db 0.2.3",
)
