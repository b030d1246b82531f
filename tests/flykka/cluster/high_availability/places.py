"""A high-availability store for several processes."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from flykka.actors.high_availability.services import Backend, HighAvailabilityServices


class Place:
    """Creates services for as many drivers as a test needs, and closes them after the test."""

    def __init__(self, backend: Callable[[], Backend]) -> None:
        self._backend = backend
        self._services: list[HighAvailabilityServices] = []

    def services(self) -> HighAvailabilityServices:
        services = HighAvailabilityServices(self._backend())
        self._services.append(services)
        return services

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        for services in self._services:
            services.close()
