"""Tests for connectors: derive a class from `SinkContract` or `SourceContract`, and run pytest."""

from __future__ import annotations

from flykka.spark_bridge.testing.contracts import Row, SinkContract, SourceContract

__all__ = ["Row", "SinkContract", "SourceContract"]
