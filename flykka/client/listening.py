"""The ways in which a client listens to its job: Flink's ListeningBehaviour, or whether it is attached."""

from __future__ import annotations

from flykka.errors import ProgramError
from flykka.messages.control.job import ListeningBehaviour

Attached = bool | ListeningBehaviour | str
"""True: every change. False: nothing before it is asked. Or a ListeningBehaviour, or its name."""

EVERYTHING = ListeningBehaviour.EXECUTION_RESULT_AND_STATE_CHANGES


def listening_behaviour(attached: Attached) -> ListeningBehaviour:
    """The behaviour that was said.

    Raises:
        ProgramError: there is no such behaviour.
    """
    if isinstance(attached, bool):
        return EVERYTHING if attached else ListeningBehaviour.DETACHED
    try:
        return ListeningBehaviour(attached)
    except ValueError as unknown:
        names = ", ".join(ListeningBehaviour)
        raise ProgramError(f"attached must be True, False or one of {names}, not {attached!r}") from unknown
