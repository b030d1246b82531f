"""The HTTP interface of an environment: if it cannot start, the cluster does not start either."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from flykka.cli.main import main
from flykka.cluster.local_cluster import LocalCluster
from flykka.errors import ClusterError, ProgramError
from flykka.rest.process.metrics import no_jvm
from flykka.rest.responses.job_event import no_work
from flykka.spark_bridge.errors import MissingExtraError
from tests.flykka.api.without_spark import without_spark
from tests.flykka.rest.observing import empty_observation


def test_a_cluster_whose_address_is_in_use_does_not_start() -> None:
    interface = empty_observation()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        interface.enable_rest(rest=taken.getsockname()[1])

        with pytest.raises(ClusterError, match=r"no REST interface at 127.0.0.1"):
            interface.with_rest(lambda address: pytest.fail(f"a cluster was started for {address}"), no_work, no_jvm)

    assert interface.rest_address is None


def test_an_address_is_released_if_the_cluster_does_not_start() -> None:
    interface, addresses = empty_observation(), list[str | None]()
    interface.enable_rest(rest=0)

    def refuse(address: str | None) -> LocalCluster:
        addresses.append(address)
        raise ClusterError("no store")

    with pytest.raises(ClusterError, match="no store"):
        interface.with_rest(refuse, no_work, no_jvm)

    (address,) = addresses
    assert address is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))


def test_an_unreadable_certificate_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("no key")
    interface = empty_observation()
    interface.enable_rest(rest=0, rest_certificate=tmp_path / "key.pem", rest_key=tmp_path / "key.pem")

    with pytest.raises(ClusterError, match=r"no REST interface at 127.0.0.1:0: "):
        interface.with_rest(lambda address: pytest.fail(f"a cluster was started for {address}"), no_work, no_jvm)


def test_a_refused_address_is_reported_as_an_error_of_the_program() -> None:
    with pytest.raises(ProgramError, match="can be reached from other machines"):
        without_spark().enable_rest("0.0.0.0:8081")


def test_an_invalid_endpoint_is_refused_before_the_app_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", __file__, "--otel", "localhost:4318"])

    assert "'localhost:4318' is not the URL of an OTLP receiver over HTTP" in capsys.readouterr().err


def test_missing_packages_of_a_reporter_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flykka.spark_bridge.connectors.connector.find_spec", lambda module: None)

    with pytest.raises(MissingExtraError, match=r"OpenTelemetry needs .* pip install 'flykka\[otel\]'"):
        without_spark().enable_open_telemetry("http://localhost:4318")
