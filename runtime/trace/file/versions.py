"""Versions of the code that has written a trace: hashes of messages and modules, and the revision of its directory.

A reader of a trace computes the same hashes of its own code. Differences explain a divergence, and missing classes are
named.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from flykka.messages.wire.message import Value

_DIGEST_BYTES = 8


def schema_hash(cls: type[Value]) -> str:
    """Return a hash of a declared class's wire form: tags, fields and their types, including those of nested values."""
    described: dict[str, str] = {}
    _describe(cls, described)
    return _hash("\n".join(f"{tag} {described[tag]}" for tag in sorted(described)).encode())


@cache
def module_hashes(name: str) -> dict[str, str]:
    """Return hashes of the source of a module and of its whole package. Empty without source.

    Computed once per process, because the process keeps running the code that it has loaded.
    """
    hashes = {}
    module = sys.modules.get(name)
    path = None if module is None else getattr(module, "__file__", None)
    if path is not None and Path(path).is_file():
        hashes[name] = _hash(Path(path).read_bytes())
    package = name if hasattr(module, "__path__") else name.rpartition(".")[0]
    if package:
        hashes |= _package_hash(package)
    return hashes


def revision() -> str | None:
    """Return the commit that is checked out in the working directory, or None if it is not in a git repository."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        mark = folder / ".git"
        try:
            if mark.is_dir():
                return _commit(mark)
            if mark.is_file():
                # This is a linked working tree of a repository that is elsewhere.
                return _commit((folder / mark.read_text().removeprefix("gitdir:").strip()).resolve())
        except OSError:
            return None
    return None


def _describe(cls: type[Value], described: dict[str, str]) -> None:
    if cls.wire_tag in described:
        return
    described[cls.wire_tag] = ""
    try:
        hints = get_type_hints(cls)
    except NameError:
        hints = {}  # A class declared within a function refers to local names.
    parts = []
    for field in fields(cls):  # type: ignore[arg-type]  # every declared class is a dataclass
        optional = field.default is not MISSING or field.default_factory is not MISSING
        hint = hints.get(field.name, field.type)
        parts.append(f"{field.name}{'=' if optional else ''}:{_hint(hint)}")
        for part in _classes(hint):
            if issubclass(part, Value) and part.wire_tag:
                _describe(part, described)
    described[cls.wire_tag] = " ".join(parts)


def _hint(hint: Any) -> str:
    """Return an annotation by its wire form: tags instead of classes, members instead of an enum."""
    if isinstance(hint, type) and not get_args(hint):
        if issubclass(hint, Enum):
            return "|".join(str(member.value) for member in hint)
        return getattr(hint, "wire_tag", "") or hint.__qualname__
    inner = ",".join(_hint(part) for part in get_args(hint))
    name = getattr(hint, "__supertype__", None)
    if name is not None:
        return _hint(name)
    return f"({inner})" if inner else str(hint)


def _classes(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        yield from _classes(part)


@cache
def _package_hash(package: str) -> dict[str, str]:
    module = sys.modules.get(package)
    folders = [] if module is None else [Path(folder) for folder in getattr(module, "__path__", ())]
    sources = sorted((path.relative_to(folder), path) for folder in folders for path in folder.rglob("*.py"))
    if not sources:
        return {}
    digest = hashlib.blake2s(digest_size=_DIGEST_BYTES)
    for relative, path in sources:
        digest.update(f"{relative.as_posix()}\n".encode() + path.read_bytes())
    return {package: digest.hexdigest()}


def _commit(repository: Path) -> str | None:
    head = (repository / "HEAD").read_text().strip()
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    shared = repository / "commondir"
    common = (repository / shared.read_text().strip()).resolve() if shared.is_file() else repository
    for root in (repository, common):
        if (root / name).is_file():
            return (root / name).read_text().strip()
    packed = common / "packed-refs"
    lines = packed.read_text().splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)


def _hash(data: bytes) -> str:
    return hashlib.blake2s(data, digest_size=_DIGEST_BYTES).hexdigest()
