"""A ref is a plain value until a system resolves it."""

from __future__ import annotations

import pytest

from flykka.messages.wire.errors import UnresolvedRefError
from flykka.messages.wire.message import Message
from flykka.messages.wire.ref import Ref


def test_refs_are_equal_if_path_and_incarnation_are_equal() -> None:
    class LivingRef(Ref):
        pass

    assert Ref("/user/a", 1) == LivingRef("/user/a", 1)
    assert hash(Ref("/user/a", 1)) == hash(LivingRef("/user/a", 1))
    assert Ref("/user/a", 1) != Ref("/user/a", 2)
    assert Ref("/user/a", 1) != Ref("/user/b", 1)
    assert Ref("/user/a", 1) != "/user/a#1"


def test_no_message_can_be_sent_to_an_address_from_a_trace() -> None:
    with pytest.raises(UnresolvedRefError, match="/user/a#1"):
        Ref("/user/a", 1).tell(Message())
