"""Pykka's registry of actors, kept without its quadratic cost.

`ActorRegistry.unregister` compares refs one by one along a list, twice. Here refs are removed by identity and, while
many actors are alive, many in one pass: for a while the list then holds some refs that are no longer alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykka import ActorRegistry

if TYPE_CHECKING:
    from flykka.runtime.ref import ActorRef

_AT_ONCE = 512
"""Up to this many registered actors an ended one is removed at once."""

_ended: dict[int, ActorRef] = {}


def register(ref: ActorRef) -> None:
    """Add an actor that has started."""
    if not ref.is_in_registry:
        return
    with ActorRegistry._actor_refs_lock:
        ActorRegistry._actor_refs.append(ref)


def unregister(ref: ActorRef) -> None:
    """Remove an actor that has ended, now or in a later sweep."""
    if not ref.is_in_registry:
        return
    with ActorRegistry._actor_refs_lock:
        _ended[id(ref)] = ref
        registered = len(ActorRegistry._actor_refs)
        if registered <= _AT_ONCE or len(_ended) * 8 >= registered:
            sweep()


def sweep() -> None:
    """Remove every ended actor, in one pass."""
    with ActorRegistry._actor_refs_lock:
        if _ended:
            ActorRegistry._actor_refs[:] = [ref for ref in ActorRegistry._actor_refs if id(ref) not in _ended]
            _ended.clear()
