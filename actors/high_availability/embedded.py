"""High availability in memory: values outlive the actors of a cluster, but not its process (EmbeddedHaServices).

Several backends may share an `EmbeddedStore`: one of them holds the latch, and when it closes, the next one acquires
the latch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from threading import RLock

from flykka.actors.errors import LeadershipLostError
from flykka.actors.high_availability.services import HighAvailabilityServices, LatchHolder
from flykka.messages.wire.tags import trace_tag


class EmbeddedStore:
    def __init__(self) -> None:
        self._lock = RLock()
        self._values: dict[str, bytes] = {}
        self._waiting: list[tuple[object, LatchHolder]] = []

    def enter(self, user: object, holder: LatchHolder) -> None:
        with self._lock:
            self._waiting.append((user, holder))
            if len(self._waiting) == 1:
                holder.acquired()

    def leave(self, user: object) -> None:
        with self._lock:
            led = self._is_held_by(user)
            self._waiting = [entry for entry in self._waiting if entry[0] is not user]
            if led and self._waiting:
                self._waiting[0][1].acquired()

    def read(self, path: str) -> bytes | None:
        with self._lock:
            return self._values.get(path)

    def names(self, path: str) -> tuple[str, ...]:
        below = f"{path}/"
        with self._lock:
            names = {each.removeprefix(below).partition("/")[0] for each in self._values if each.startswith(below)}
        return tuple(sorted(names))

    def write(self, user: object, path: str, data: bytes | None, expected: Mapping[str, bytes | None]) -> str | None:
        with self._lock:
            if not self._is_held_by(user):
                raise LeadershipLostError(f"the store in memory: another process leads; {path} was not written")
            for each, value in expected.items():
                if self._values.get(each) != value:
                    return each
            if data is None:
                self._values.pop(path, None)
            else:
                self._values[path] = data
            return None

    def _is_held_by(self, user: object) -> bool:
        return bool(self._waiting) and self._waiting[0][0] is user


class EmbeddedBackend:
    name = "the store in memory"

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def acquire(self, holder: LatchHolder) -> None:
        self._store.enter(self, holder)

    def read(self, path: str) -> bytes | None:
        return self._store.read(path)

    def names(self, path: str) -> tuple[str, ...]:
        return self._store.names(path)

    def write(self, path: str, data: bytes | None, expected: Mapping[str, bytes | None]) -> str | None:
        return self._store.write(self, path, data, expected)

    def close(self) -> None:
        self._store.leave(self)


@trace_tag("high_availability.embedded")
class EmbeddedHaServices(HighAvailabilityServices):
    def __init__(self, store: EmbeddedStore | None = None, new_id: Callable[[], str] | None = None) -> None:
        """By default the store is private, and ids are consecutive numbers, so that a seeded run repeats them."""
        if store is None and new_id is None:
            new_id = partial(_counted, count(1))
        super().__init__(EmbeddedBackend(store or EmbeddedStore()), new_id)


def _counted(numbers: count[int]) -> str:
    return f"embedded-{next(numbers)}"
