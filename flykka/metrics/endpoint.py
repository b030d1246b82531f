"""Endpoints of OpenTelemetry's protocol, as they are given."""

from __future__ import annotations

from urllib.parse import urlsplit


def checked_endpoint(endpoint: str) -> str:
    """The endpoint. Raises `ValueError` where it is no URL of a receiver."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{endpoint!r} is no URL of a receiver of OTLP by HTTP: as in http://localhost:4318")
    return endpoint
