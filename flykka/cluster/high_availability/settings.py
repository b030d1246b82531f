"""Settings of a high-availability store in ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from flykka.runtime.secrets import remember_secrets

SESSION_TIMEOUT_MS = 30_000
"""Milliseconds without contact after which ZooKeeper considers a driver dead: half of Flink's 60 s."""


class ZooKeeperAcl(StrEnum):
    """The access rights in ZooKeeper (Flink's `high-availability.zookeeper.client.acl`)."""

    OPEN = "open"
    """Every client may read and write."""
    CREATOR = "creator"
    """Only the user who created a node may read and write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """A store in ZooKeeper, for drivers on several machines.

    `hosts` are the servers, such as `"zk1:2181,zk2:2181,zk3:2181"`. `storage_dir` is a directory that all drivers can
    reach, for values that are too large for ZooKeeper. `path` is the root node, which must be different for each
    application. `session_timeout_ms` is how long a driver without contact keeps the leadership.

    With a `username`, drivers log in by SASL (DIGEST-MD5) with the password in `password_file`. With the `acl`
    `creator`, only this user may read and write the nodes.

    Raises:
        ValueError: the path or the timeout is invalid; a user is set without a password file; or the acl is `creator`
            without a user.
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
            raise ValueError(f"the session timeout is {self.session_timeout_ms} ms, but must be above 0")
        if self.acl not in list(ZooKeeperAcl):
            raise ValueError(f"the acl is one of {', '.join(ZooKeeperAcl)}, not {self.acl!r}")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("a user logs in with a password: give both username and password_file, or none of them")
        if self.acl == ZooKeeperAcl.CREATOR and self.username is None:
            raise ValueError("with acl 'creator' the nodes belong to a user: give username and password_file")

    def password(self) -> str:
        """Read the password file. Raises `OSError` if the file cannot be read."""
        if self.password_file is None:
            return ""
        password = Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        remember_secrets({"password": password})
        return password
