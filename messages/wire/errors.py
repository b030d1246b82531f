"""The errors of encoding and decoding, each with the party at fault.

MessageError
├── CodecError
│   ├── DeclarationError   the class: a field has an annotation without a wire schema
│   ├── EncodeError        the sender: the value is not what its class declares
│   └── DecodeError        the bytes: truncated, altered, of another protocol, or from an incompatible peer
└── UnresolvedRefError     the sender: the address was read outside an actor system, so it has no actor
"""

from __future__ import annotations


class MessageError(Exception):
    """The base class of the errors of this package."""


class CodecError(MessageError, ValueError):
    """A value could not be turned into bytes, or bytes into a value."""


class DeclarationError(CodecError):
    """A declared class has a field that no message can carry. The message of the error names class and field."""


class EncodeError(CodecError):
    """A value does not fit its declaration. The message of the error names class and field."""


class DecodeError(CodecError):
    """Bytes are not a value of this protocol. The message names the tag and the path of the field, as far as known."""


class UnresolvedRefError(MessageError):
    """A message was sent to an address that was decoded outside an actor system."""
