"""Checks the endpoint of an OTLP receiver."""

from __future__ import annotations

from urllib.parse import urlsplit


def checked_endpoint(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{endpoint!r} is not the URL of an OTLP receiver over HTTP, such as http://localhost:4318")
    return endpoint
