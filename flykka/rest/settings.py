"""RestSettings: the address of a server, and its access rules."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

DEFAULT_HOST = "127.0.0.1"

CONNECTIONS_PER_PEER = 64
"""The default maximum number of connections from one address, if other machines can connect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """The settings of a server. `port` 0 selects a free port. `token_file` contains the bearer token of all requests.

    Without a token file, requests that change something need a token that the server generates, unless `no_token` is
    set.

    Raises:
        ValueError: other machines can connect and there is no token; only one of certificate and key is set; or both a
            token and `no_token` are set.
    """

    host: str = DEFAULT_HOST
    port: int = 0
    token_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    no_token: bool = False
    connections_per_peer: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise ValueError(f"{self.port} is not a port: it is a number from 0 (any that is free) to 65535")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("TLS needs both a certificate and its key")
        if self.no_token and self.token_file is not None:
            raise ValueError("--rest-no-token and --rest-token-file are opposites: give one of them")
        if not self.is_loopback and self.token_file is None:
            raise ValueError(
                f"the REST interface at {self.host} can be reached from other machines: name a file"
                " with a token that every request must have (--rest-token-file), or listen on 127.0.0.1"
            )

    @classmethod
    def at(cls, address: str | int, **more: Any) -> RestSettings:
        """Create settings for `PORT` or `HOST:PORT`, with an IPv6 host in brackets. Raises the same `ValueError`."""
        host, separator, port = str(address).rpartition(":")
        if not port.isdecimal() or len(port) > 5:
            raise ValueError(f"{address!r} is not of the form PORT or HOST:PORT")
        return cls(host=host.strip("[]") if separator and host else DEFAULT_HOST, port=int(port), **more)

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def most_connections_per_peer(self) -> int | None:
        if self.connections_per_peer is None and not self.is_loopback:
            return CONNECTIONS_PER_PEER
        return self.connections_per_peer

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"

    def token(self) -> str | None:
        """Read the token file, without whitespace around the token.

        Raises:
            OSError: the file cannot be read.
            ValueError: the token has less than 16 characters.
        """
        if self.token_file is None:
            return None
        token = Path(self.token_file).read_text().strip()
        if len(token) < 16:
            raise ValueError(f"the token in {self.token_file} has {len(token)} characters: it must have 16 at least")
        return token
