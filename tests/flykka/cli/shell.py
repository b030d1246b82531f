"""The type of a command line in tests."""

from __future__ import annotations

from collections.abc import Callable

Shell = Callable[..., tuple[int, str, str]]
"""Runs one command with arguments; returns the exit code, stdout and stderr."""
