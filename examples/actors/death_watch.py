"""DeathWatch: a watcher is told of an end, once, however it came about.

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
    """Foreman -> Worker: what no worker can."""


@message("death_watch.order")
class Order(Message):
    """main -> Foreman: have the worker do this. Answered by `Replaced` when there is another one in its place."""

    deed: Message


@message("death_watch.replaced")
class Replaced(Message):
    """Foreman -> asker: someone else has the job."""


class Worker(Actor):
    """Works until it goes home, or until something happens to it."""

    def pre_start(self) -> None:
        """Begin."""
        print(f"incarnation {self.context.ref.incarnation} works")

    def handle_message(self, message: Message) -> None:
        """Go home, or fail."""
        if message == GoHome():
            self.context.stop()
        else:
            raise RuntimeError("too heavy")


class Foreman(Actor):
    """Keeps someone at work: when the worker ends there is another one of the same name."""

    # A worker that fails is stopped, not restarted: the foreman hears of it, and hires.
    supervisor_strategy = OneForOne(decider=lambda _: Directive.STOP)

    def __init__(self) -> None:
        self._asker: Ref | None = None

    def pre_start(self) -> None:
        """Hire the first one."""
        self._hire()

    def handle_message(self, message: Message) -> None:
        """Pass on an order, and replace who has ended."""
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
    """Two ends, a wanted one and an accident: the foreman hears of both in the same way."""
    # A failure is logged with its stack. Here it is part of the show.
    logging.getLogger("flykka.runtime").setLevel(logging.CRITICAL)
    with ActorSystem("death-watch") as system:
        foreman = system.spawn(Props(Foreman), "foreman")
        for deed in (GoHome(), LiftTheAnvil()):
            foreman.ask(Order(deed=deed), timeout=5)


if __name__ == "__main__":
    main()
