"""Whether a message has a recorded form, as cheaply as that can be told: it is asked for every message of a replay."""

from __future__ import annotations

from collections.abc import Callable

import msgpack

from flykka.messages.wire.codec import encode
from flykka.messages.wire.errors import CodecError
from flykka.messages.wire.message import Value

_KEPT = 1024
_KEPT_BYTES = 1024
"""So many messages are kept with their forms, of those that are no larger."""


class Forms:
    """Knows the forms of messages that it has met lately.

    An equal message has the same form; so one that comes again and again is compared, which takes an eighth of the time
    of its encoding. Another one is encoded, which takes half the time of the decoding of its recorded form.
    """

    def __init__(self) -> None:
        self._pack: Callable[[object], bytes] = msgpack.Packer().pack
        self._known: dict[bytes, Value] = {}

    def is_form_of(self, form: bytes | str, message: object) -> bool:
        """Whether `message` has this form; False also where a closer look might tell that it has."""
        if isinstance(form, str) or not isinstance(message, Value):
            return False
        known = self._known.get(form)
        if known is not None:
            return known is message or known == message
        try:
            is_form = encode(message, self._pack) == form
        except CodecError:
            return False
        if is_form and len(form) <= _KEPT_BYTES:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[form] = message
        return is_form
