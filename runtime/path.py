"""Paths of actors within one system, as in Akka: `/user/job-1/coordinator`."""

from __future__ import annotations

import re

from flykka.runtime.errors import InvalidActorNameError

ROOT = "/"
USER = "/user"
TEMP = "/temp"
"""The parent path of the refs of pending asks."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@~+=,;!*&'()-]*")


def child_path(parent: str, name: str) -> str:
    """Return the path of the child `name`. Raises `InvalidActorNameError` if the name cannot be part of a path."""
    if not _NAME.fullmatch(name):
        raise InvalidActorNameError(
            f"{parent} cannot contain an actor named {name!r}: a name begins with a letter, a digit or _, and"
            " continues with these or .:@~+=,;!*&'()-"
        )
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def split_path(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name


def absolute_path(base: str, path: str) -> str:
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{base}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return ROOT + "/".join(parts)
