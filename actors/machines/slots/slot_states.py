"""The states of a slot, at the ResourceManager and at its TaskManager, and the legal moves between them."""

from __future__ import annotations

from enum import Enum


class SlotState(Enum):
    """The state of a slot at the ResourceManager."""

    FREE = "FREE"
    PENDING = "PENDING"
    ALLOCATED = "ALLOCATED"


SLOT_MOVES: dict[SlotState, tuple[SlotState, ...]] = {
    SlotState.FREE: (SlotState.PENDING, SlotState.ALLOCATED),
    SlotState.PENDING: (SlotState.ALLOCATED, SlotState.FREE),
    SlotState.ALLOCATED: (SlotState.FREE,),
}
"""From FREE to ALLOCATED if a TaskManager reports an allocation that was not known."""


class TaskSlotState(Enum):
    """The state of a slot at its TaskManager."""

    FREE = "FREE"
    ALLOCATED = "ALLOCATED"
    ACTIVE = "ACTIVE"
    RELEASING = "RELEASING"


T = TaskSlotState

TASK_SLOT_MOVES: dict[TaskSlotState, tuple[TaskSlotState, ...]] = {
    T.FREE: (T.ALLOCATED,),
    T.ALLOCATED: (T.ACTIVE, T.FREE),
    T.ACTIVE: (T.ALLOCATED, T.RELEASING, T.FREE),
    T.RELEASING: (T.FREE,),
}
"""From ACTIVE to ALLOCATED when its JobMaster is lost: the slot is offered again."""
