"""Stash and FSM: a connection that stashes queries while it connects, and closes itself when it is idle.

    python examples/actors/stash_and_fsm.py

Prints:

    CONNECTING: 'select 1' has to wait
    CONNECTING: 'select 2' has to wait
    CONNECTING -> OPEN
    OPEN: answers 'select 1'
    OPEN: answers 'select 2'
    idle: closes behind 2 answers
"""

from __future__ import annotations

from enum import StrEnum

from flykka.runtime import FSM, ActorSystem, Message, Next, Props, StateTimeout, StopReason, message, when


@message("connection.query")
class Query(Message):
    """main -> Connection: a query to answer."""

    text: str


@message("connection.connected")
class Connected(Message):
    """Connection -> itself: the connection is open."""


class Link(StrEnum):
    """The states of a connection."""

    CONNECTING = "CONNECTING"
    OPEN = "OPEN"


class Connection(FSM[Link, int]):
    """A state machine whose data is the number of answers."""

    def __init__(self) -> None:
        self.start_with(Link.CONNECTING, 0)

    @when(Link.CONNECTING, state_timeout="5s")
    def connecting(self, message: Message) -> Next[Link, int] | None:
        """Stash queries until the connection is open."""
        match message:
            case Query(text=text):
                print(f"CONNECTING: {text!r} has to wait")
                self.context.stash()
                return self.stay()
            case Connected():
                return self.goto(Link.OPEN)
            case StateTimeout():
                return self.stop(StopReason.FAILURE)
        return None

    @when(Link.OPEN, state_timeout="50ms")
    def open(self, message: Message) -> Next[Link, int] | None:
        """Answer queries, and stop after 50 ms without a query."""
        match message:
            case Query(text=text):
                print(f"OPEN: answers {text!r}")
                return self.stay().using(self.state_data + 1)
            case StateTimeout():
                return self.stop()
        return None

    def on_transition(self, old: Link, new: Link) -> None:
        """Print a change of the state. Called at the start, too, for the transition from CONNECTING to itself."""
        if new is Link.CONNECTING:
            self.context.timers.start_once("connect", 200, Connected())
        else:
            print(f"{old} -> {new}")
            self.context.unstash_all()

    def on_termination(self, reason: StopReason, state: Link, data: int) -> None:
        """Print the reason. Called once when the state machine stops, for whatever reason."""
        print(f"idle: closes behind {data} answers" if reason is StopReason.NORMAL else f"{reason} while {state}")


def main() -> None:
    """Send queries before the connection is open, and wait until it closes itself."""
    with ActorSystem("connections") as system:
        connection = system.spawn(Props(Connection), "connection")
        connection.tell(Query(text="select 1"))
        connection.tell(Query(text="select 2"))
        connection.actor_stopped.wait(timeout=5)


if __name__ == "__main__":
    main()
