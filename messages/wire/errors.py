"""Errors of encoding and decoding, named for whose fault it is.

MessageError
├── CodecError
│   ├── DeclarationError   the class: a field is annotated with what the wire has no form for
│   ├── EncodeError        the sender: the value is not what its class declares
│   └── DecodeError        the bytes: cut off, altered, of another protocol, or from an incompatible peer
└── UnresolvedRefError     the sender: the address was read outside an actor system, and nobody stands behind it
"""

from __future__ import annotations


class MessageError(Exception):
    """The root of the errors of this package."""


class CodecError(MessageError, ValueError):
    """A value could not be turned into bytes, or bytes into a value."""


class DeclarationError(CodecError):
    """A declared class has a field that no message can carry; the text names class and field."""


class EncodeError(CodecError):
    """A value does not fit its declaration; the text names class and field."""


class DecodeError(CodecError):
    """Bytes are not a value of this protocol; the text names the tag and the path of the field, as far as known."""


class UnresolvedRefError(MessageError):
    """A message was told to an address that was decoded outside an actor system."""
