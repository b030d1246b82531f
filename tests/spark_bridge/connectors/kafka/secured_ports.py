"""Broker ports for clients with passwords, and for clients that verify the broker's certificate."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.connectors.broker import Listener, free_port

USER, PASSWORD = "alice", "open-sesame-42"
_JAAS = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class SecuredPorts:
    listeners: dict[str, Listener]
    settings: dict[str, str]


def secured_ports(folder: Path) -> SecuredPorts:
    """Return ports with passwords, with TLS and with both; creates a certificate for 127.0.0.1 in the folder."""
    protocols = {"SASL": "SASL_PLAINTEXT", "TLS": "SSL", "BOTH": "SASL_SSL"}
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "ssl.keystore.location": str(_make_certificate(folder)),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
    }
    for name in ("sasl", "both"):
        plain = f'{_JAAS}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = plain
        settings[f"listener.name.{name}.scram-sha-512.sasl.jaas.config"] = f"{_JAAS}.scram.ScramLoginModule required;"
    listeners = {name: Listener(name=name, port=free_port(), protocol=each) for name, each in protocols.items()}
    return SecuredPorts(listeners, settings)


def _make_certificate(folder: Path) -> Path:
    home = os.environ.get("JAVA_HOME")
    keytool = str(Path(home, "bin", "keytool")) if home else "keytool"
    store = folder / "broker.p12"
    of_store = ["-alias", "broker", "-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD]
    name = ["-keyalg", "EC", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1"]
    subprocess.run([keytool, "-genkeypair", *of_store, *name], check=True, capture_output=True)
    return store
