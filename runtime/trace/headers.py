"""The header of a trace as it is read: what the first frame says, and what later ones had to add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack

from flykka.runtime.errors import TraceError
from flykka.runtime.trace.format import FORMAT_NAME, FORMAT_VERSION
from flykka.runtime.trace.frames import Damage, Frame
from flykka.runtime.trace.records import Capped, Ring, TraceHeader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def read_header(path: Path, first: Frame | Damage | None) -> dict[str, Any]:
    """The fields of the first frame. Raises `TraceError` where these are not those of a trace that can be read here."""
    if not isinstance(first, Frame):
        why = "the file is empty" if first is None else first.reason
        raise TraceError(f"{path} has no whole header ({why}): it is no trace, or a crash left nothing of it")
    fields = _map(first.payload)
    if fields.get("format") != FORMAT_NAME:
        raise TraceError(f"{path} is no trace")
    version = fields.get("version")
    if not isinstance(version, int):
        raise TraceError(f"{path} is a trace without the version of its format")
    if version > FORMAT_VERSION:
        raise TraceError(
            f"{path} has format {version}, and this version reads up to {FORMAT_VERSION}: "
            f"read it with flykka {fields.get('package')} or newer"
        )
    missing = [name for name in ("system", "seed", "package", "python", "hash_seed") if name not in fields]
    if missing:
        raise TraceError(f"{path} is a trace whose header lacks {', '.join(missing)}")
    return fields


def header_of(fields: dict[str, Any], later: Iterable[Frame]) -> TraceHeader:
    """The header, with what later frames add to it."""
    schemas: dict[str, str] = {}
    modules: dict[str, str] = {}
    redacted: list[str] = []
    capped = None
    for frame in later:
        added = _map(frame.payload[1:])
        schemas |= added.get("schemas", {})
        modules |= added.get("modules", {})
        redacted += added.get("redacted", ())
        capped = added.get("capped", capped)
    return TraceHeader(
        format_version=fields["version"],
        system=fields["system"],
        seed=fields["seed"],
        package=fields["package"],
        python=fields["python"],
        hash_seed=fields["hash_seed"],
        ring=None if fields.get("ring") is None else Ring(**fields["ring"]),
        schemas=schemas,
        modules=modules,
        revision=fields.get("revision"),
        recorded_at_ms=fields.get("recorded_at_ms"),
        redacted=frozenset(redacted),
        capped=None if capped is None else Capped(**capped),
    )


def _map(payload: bytes) -> dict[str, Any]:
    try:
        found = msgpack.unpackb(payload)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
