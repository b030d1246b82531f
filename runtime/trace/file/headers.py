"""The header of a trace as it is read: what the first frame says, and what later ones had to add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgpack

from flykka.messages.wire.unpacking import unpack
from flykka.runtime.errors import TraceError
from flykka.runtime.trace.file.frame_format import FORMAT_NAME, FORMAT_VERSION, FRAME, merge_names
from flykka.runtime.trace.file.frame_reader import Damage, Frame
from flykka.runtime.trace.records import Capped, Ring, TraceHeader

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from pathlib import Path

T = TypeVar("T")

_FIELDS: dict[str, type] = {"system": str, "seed": int, "package": str, "python": str, "hash_seed": str}
"""The keys that every header has."""

_NAMES: dict[str, type] = {"schemas": dict, "modules": dict, "redacted": list, "capped": dict}
"""The keys that later frames may add."""

_NAME: bytes = msgpack.packb("format") + msgpack.packb(FORMAT_NAME)
"""The first thing in a header, behind the size of its map."""


def read_header(path: Path, first: Frame | Damage | None) -> dict[str, Any]:
    """The fields of the first frame. Raises `TraceError` where these are not those of a trace that can be read here."""
    if not isinstance(first, Frame):
        if first is not None and not _begins_as_one(path):
            raise TraceError(f"{path} is no trace: it does not begin as one")
        why = "the file is empty" if first is None else first.reason
        raise TraceError(f"{path} has no whole header ({why}): it is no trace, or a crash left nothing of it")
    fields = _map(first.payload)
    if fields.get("format") != FORMAT_NAME:
        raise TraceError(f"{path} is no trace")
    version = fields.get("version")
    if type(version) is not int or version < 1:
        raise TraceError(f"{path} is a trace without the version of its format")
    if version < FORMAT_VERSION:
        raise TraceError(
            f"{path} has format {version}, of before the first release, which names classes by modules that have moved"
            f" since: record the run again, or read it with the flykka that has written it"
        )
    if version > FORMAT_VERSION:
        raise TraceError(
            f"{path} has format {version}, and this version reads {FORMAT_VERSION}: "
            f"read it with flykka {fields.get('package')} or newer"
        )
    missing = [name for name, kind in _FIELDS.items() if type(fields.get(name)) is not kind]
    if missing:
        raise TraceError(f"{path} is a trace whose header lacks {', '.join(missing)}")
    return fields


def header_of(path: Path, fields: dict[str, Any], later: Iterable[Frame]) -> TraceHeader:
    """The header, with what later frames add to it. Raises `TraceError` where something is not of its type."""
    try:
        return _header_of(fields, [_names_of(frame) for frame in later])
    except (TypeError, ValueError) as wrong:
        raise TraceError(f"{path} is a trace whose header cannot be read: {wrong}") from wrong


def _header_of(fields: dict[str, Any], later: list[dict[str, Any]]) -> TraceHeader:
    added: dict[str, Any] = {}
    for each in later:
        merge_names(added, each)
    capped = _numbers("capped", added)
    ring = _numbers("ring", fields, optional=("begins_at",))
    return TraceHeader(
        format_version=fields["version"],
        system=fields["system"],
        seed=fields["seed"],
        package=fields["package"],
        python=fields["python"],
        hash_seed=fields["hash_seed"],
        ring=None if ring is None else Ring(**ring),
        schemas=_texts("schemas", added),
        modules=_texts("modules", added),
        revision=_of(str, "revision", fields),
        recorded_at_ms=_of(int, "recorded_at_ms", fields),
        redacted=_redacted(added),
        capped=None if capped is None else Capped(**capped),
    )


def _begins_as_one(path: Path) -> bool:
    """Tell whether the file has the name of the format where traces have it, or ends before."""
    with path.open("rb") as file:
        file.seek(FRAME.size + 1)
        return _NAME.startswith(file.read(len(_NAME)))


def _of(kind: type[T], name: str, fields: dict[str, Any]) -> T | None:
    """An optional field. Raises `TypeError` where it is something else."""
    found = fields.get(name)
    if found is None or type(found) is kind:
        return found
    raise TypeError(f"{name} is a {type(found).__name__}")


def _texts(name: str, fields: dict[str, Any]) -> dict[str, str]:
    found = _of(dict, name, fields) or {}
    if not all(type(each) is str for each in (*found, *found.values())):
        raise TypeError(f"{name} has something else than texts")
    return found


def _redacted(fields: dict[str, Any]) -> frozenset[str]:
    tags = _of(list, "redacted", fields) or []
    if not all(type(each) is str for each in tags):
        raise TypeError("redacted has something else than texts")
    return frozenset(tags)


def _numbers(name: str, fields: dict[str, Any], optional: Container[str] = ()) -> dict[str, int] | None:
    """A map of whole numbers, of which the `optional` may be None."""
    found: dict[str, Any] | None = _of(dict, name, fields)
    for key, number in (found or {}).items():
        if not (number is None and key in optional) and not (type(number) is int and number >= 0):
            raise TypeError(f"{name}.{key} is a {type(number).__name__}, or negative")
    return found


def _map(payload: bytes) -> dict[str, Any]:
    try:
        found = unpack(payload)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _names_of(frame: Frame) -> dict[str, Any]:
    found = _map(frame.payload[1:])
    for key, kind in _NAMES.items():
        if type(found.get(key, kind())) is not kind:
            raise TypeError(f"{key} is a {type(found[key]).__name__}, at byte {frame.offset}")
    return found
