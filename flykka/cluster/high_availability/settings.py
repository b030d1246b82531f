"""Settings of a store in ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass

SESSION_TIMEOUT_MS = 30_000
"""After so much silence ZooKeeper takes a driver for dead; half of Flink's, for there is one driver and no cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """A store in ZooKeeper, for drivers on several machines.

    `hosts` are its servers, such as `"zk1:2181,zk2:2181,zk3:2181"`; `storage_dir` is a directory that all drivers can
    reach, for what is too large for ZooKeeper; `path` is where everything is kept there: each application has its own.
    `session_timeout_ms` is how long a driver that is not heard of is taken to lead.

    Raises:
        ValueError: there is no such path, or no time at all.
    """

    hosts: str
    storage_dir: str
    path: str = "/flykka/default"
    session_timeout_ms: int = SESSION_TIMEOUT_MS

    def __post_init__(self) -> None:
        """Refuse what ZooKeeper would not understand."""
        if not self.path.startswith("/") or self.path.endswith("/") or "//" in self.path:
            raise ValueError(
                f"a path in ZooKeeper begins with a slash and ends without one, as in '/a/b': {self.path!r}"
            )
        if self.session_timeout_ms < 1:
            raise ValueError(f"a session lasts some milliseconds, not {self.session_timeout_ms}")
