"""Supervision with backoff: while a database is unavailable, its clients only wait longer.

    python examples/actors/supervision_with_backoff.py

Prints:

    connection 1: refused
    connection 2: refused
    connection 3: open
    seven times six: 42
    twenty by zero: ZeroDivisionError
    connection 4: open
    twenty by four: 5
"""

from __future__ import annotations

import logging

from flykka.runtime import Actor, ActorSystem, AskFailedError, Backoff, Directive, Message, OneForOne, Props, message


@message("backoff_example.multiply")
class Multiply(Message):
    """main -> Database: a query. The reply is `Answer`."""

    left: int
    right: int


@message("backoff_example.divide")
class Divide(Message):
    """main -> Database: a query that may fail. The reply is `Answer`."""

    left: int
    right: int


@message("backoff_example.answer")
class Answer(Message):
    """Database -> asker: the result."""

    value: int


class Server:
    """A remote server that refuses the first connections."""

    connections = 0

    def connect(self) -> None:
        """Connect. Raises `ConnectionError` the first two times."""
        self.connections += 1
        if self.connections <= 2:
            print(f"connection {self.connections}: refused")
            raise ConnectionError("refused")
        print(f"connection {self.connections}: open")


class Database(Actor):
    """Opens a connection when it starts, so that a restart after a failure opens a new one."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def pre_start(self) -> None:
        """Connect. A restart calls this method, too."""
        self._server.connect()

    def handle_message(self, message: Message) -> None:
        assert self.context.sender is not None
        match message:
            case Multiply(left=left, right=right):
                self.context.sender.tell(Answer(value=left * right))
            case Divide(left=left, right=right):
                self.context.sender.tell(Answer(value=left // right))


class Office(Actor):
    """Restarts its database with increasing delays, also if the start fails; gives up after ten restarts.

    While the database waits for its restart, its messages wait in its mailbox.
    """

    supervisor_strategy = OneForOne(
        decider=lambda _: Directive.RESTART,
        backoff=Backoff(min_backoff="10ms", max_backoff="1s", random_factor=0.2),
        max_restarts=10,
        within_ms=60_000,
    )

    def pre_start(self) -> None:
        self._database = self.context.spawn(Props(Database, Server()), "database")

    def handle_message(self, message: Message) -> None:
        """Forward all messages, so that the asker gets the database's reply or failure."""
        self.context.forward(self._database, message)


def main() -> None:
    """Query while the database is unavailable, and make it fail."""
    # Failures are logged with their stacks, which this example does not need.
    logging.getLogger("flykka.runtime").setLevel(logging.CRITICAL)
    with ActorSystem("backoff") as system:
        office = system.spawn(Props(Office), "office")
        print(f"seven times six: {office.ask(Multiply(left=7, right=6), timeout=5).value}")
        try:
            office.ask(Divide(left=20, right=0), timeout=5)
        except AskFailedError as error:
            print(f"twenty by zero: {error.failure.type_name}")
        print(f"twenty by four: {office.ask(Divide(left=20, right=4), timeout=5).value}")


if __name__ == "__main__":
    main()
