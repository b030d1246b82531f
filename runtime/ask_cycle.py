"""Actors that wait for each other's replies: found when the last of them begins to wait, and named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flykka.runtime.errors import AskCycleError

if TYPE_CHECKING:
    from flykka.messages.ref import Ref
    from flykka.runtime.cell import Cell
    from flykka.runtime.ref import ActorRef


def begin_asking(cell: Cell, asked: ActorRef) -> None:
    """The turn of `cell` waits for a reply of `asked` from now on, until it sets `cell.asking` to None.

    Raises:
        AskCycleError: `asked` waits for `cell` already, through however many others.
    """
    cell.asking = asked
    chain: list[Ref] = [cell.ref]
    link: ActorRef | None = asked
    while link is not None:
        chain.append(link)
        if link == cell.ref:
            raise AskCycleError(chain)
        link = getattr(link.actor_inbox.owner, "asking", None)
