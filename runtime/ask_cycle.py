"""Actors that wait for each other's replies: found when the last of them begins to wait, and named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flykka.runtime.errors import AskCycleError

if TYPE_CHECKING:
    from flykka.messages.wire.ref import Ref
    from flykka.runtime.cell import Cell
    from flykka.runtime.promise import Reply
    from flykka.runtime.ref import ActorRef


def begin_asking(cell: Cell, reply: Reply) -> None:
    """The turn of `cell` waits for `reply` from now on, until it sets `cell.asking` to None.

    Raises:
        AskCycleError: the asked actor waits for `cell` already, through however many others.
    """
    cell.asking = reply
    chain: list[Ref] = [cell.ref]
    link: Reply | None = reply
    while link is not None:
        chain.append(link.asked)
        if link.asked == cell.ref:
            raise AskCycleError(chain)
        link = _awaited_by(link.asked)


def _awaited_by(ref: ActorRef) -> Reply | None:
    owner: Any = ref.actor_inbox.owner  # A cell, or the dead end behind a ref to no one.
    reply: Reply | None = getattr(owner, "asking", None)
    # Who has the reply goes on in this moment: except where this very turn is taken on the stack of its waiting.
    if reply is not None and reply.done() and (owner.on_loop or not reply.is_driven):
        return None
    return reply
