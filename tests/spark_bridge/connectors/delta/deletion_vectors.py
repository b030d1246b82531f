"""Builds deletion vectors, which delta-rs does not write."""

from __future__ import annotations

import struct
from base64 import b85encode
from typing import Any


def deletion_vector(*rows: int) -> dict[str, Any]:
    """Return an inline deletion vector as the protocol defines it: a bitmap of row numbers in z85."""
    container = struct.pack("<HH", 0, len(rows) - 1) + struct.pack("<I", 16) + struct.pack(f"<{len(rows)}H", *rows)
    bitmap = struct.pack("<II", 12346, 1) + container
    content = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    padded = content + b"\0" * (-len(content) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": b85encode(padded).translate(_Z85).decode(),
        "sizeInBytes": len(content),
        "cardinality": len(rows),
    }


_Z85 = bytes.maketrans(
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
)
