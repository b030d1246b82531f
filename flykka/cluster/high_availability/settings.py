"""Settings of a store in ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from flykka.runtime.secrets import remember_secrets

SESSION_TIMEOUT_MS = 30_000
"""After so much silence ZooKeeper takes a driver for dead; half of Flink's, for there is one driver and no cluster."""


class ZooKeeperAcl(StrEnum):
    """The rights on what is kept in ZooKeeper (Flink's `high-availability.zookeeper.client.acl`)."""

    OPEN = "open"
    """Everybody who reaches it may read and write."""
    CREATOR = "creator"
    """The user who has made a node, and nobody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """A store in ZooKeeper, for drivers on several machines.

    `hosts` are its servers, such as `"zk1:2181,zk2:2181,zk3:2181"`; `storage_dir` is a directory that all drivers can
    reach, for what is too large for ZooKeeper; `path` is where everything is kept there: each application has its own.
    `session_timeout_ms` is how long a driver that is not heard of is taken to lead.

    With a `username` drivers log in by SASL (DIGEST-MD5), with the password that stands in `password_file`. With an
    `acl` of `creator` this user alone may read and write what they keep.

    Raises:
        ValueError: there is no such path, or no time at all; or a user without a password file, or a creator without a
            name.
    """

    hosts: str
    storage_dir: str
    path: str = "/flykka/default"
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    acl: ZooKeeperAcl | str = ZooKeeperAcl.OPEN
    username: str | None = None
    password_file: str | None = None

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or self.path.endswith("/") or "//" in self.path:
            raise ValueError(
                f"a path in ZooKeeper begins with a slash and ends without one, as in '/a/b': {self.path!r}"
            )
        if self.session_timeout_ms < 1:
            raise ValueError(f"a session lasts some milliseconds, not {self.session_timeout_ms}")
        if self.acl not in list(ZooKeeperAcl):
            raise ValueError(f"the acl is one of {', '.join(ZooKeeperAcl)}, not {self.acl!r}")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("a user logs in with a password: give both username and password_file, or none of them")
        if self.acl == ZooKeeperAcl.CREATOR and self.username is None:
            raise ValueError("with acl 'creator' what is kept belongs to a user: give username and password_file")

    def password(self) -> str:
        """The password of the file, without the end of its line. Raises `OSError` where it cannot be read."""
        if self.password_file is None:
            return ""
        password = Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        remember_secrets({"password": password})
        return password
