"""DeathWatch: a watcher is notified once when an actor terminates, for whatever reason.

    python examples/actors/death_watch.py

Prints:

    incarnation 1 works
    the foreman hears of the end of incarnation 1
    incarnation 2 works
    the foreman hears of the end of incarnation 2
    incarnation 3 works
"""

from __future__ import annotations

import logging

from flykka.runtime import Actor, ActorSystem, Directive, Message, OneForOne, Props, Ref, Terminated, message


@message("death_watch.go_home")
class GoHome(Message):
    """Foreman -> Worker: stop."""


@message("death_watch.lift_the_anvil")
class LiftTheAnvil(Message):
    """Foreman -> Worker: do a task at which every worker fails."""


@message("death_watch.order")
class Order(Message):
    """main -> Foreman: forward this to the worker. The reply is `Replaced`, as soon as the worker has a successor."""

    deed: Message


@message("death_watch.replaced")
class Replaced(Message):
    """Foreman -> asker: there is a new worker."""


class Worker(Actor):
    """Works until it is stopped or fails."""

    def pre_start(self) -> None:
        print(f"incarnation {self.context.ref.incarnation} works")

    def handle_message(self, message: Message) -> None:
        if message == GoHome():
            self.context.stop()
        else:
            raise RuntimeError("too heavy")


class Foreman(Actor):
    """Replaces a worker that has terminated by another one with the same name."""

    # A failed worker is stopped, not restarted, so that the foreman is notified and spawns another one.
    supervisor_strategy = OneForOne(decider=lambda _: Directive.STOP)

    def __init__(self) -> None:
        self._asker: Ref | None = None

    def pre_start(self) -> None:
        self._hire()

    def handle_message(self, message: Message) -> None:
        """Forward an order, and replace a worker that has terminated."""
        match message:
            case Order(deed=deed):
                self._asker = self.context.sender
                self._worker.tell(deed)
            case Terminated(ref=ref):
                print(f"the foreman hears of the end of incarnation {ref.incarnation}")
                self._hire()

    def _hire(self) -> None:
        self._worker = self.context.spawn(Props(Worker), "worker")
        self.context.watch(self._worker)
        if self._asker is not None:
            self._asker.tell(Replaced())


def main() -> None:
    """Terminate two workers, one by a stop and one by a failure: the foreman is notified of both in the same way."""
    # Failures are logged with their stacks, which this example does not need.
    logging.getLogger("flykka.runtime").setLevel(logging.CRITICAL)
    with ActorSystem("death-watch") as system:
        foreman = system.spawn(Props(Foreman), "foreman")
        for deed in (GoHome(), LiftTheAnvil()):
            foreman.ask(Order(deed=deed), timeout=5)


if __name__ == "__main__":
    main()
