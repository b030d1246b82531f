"""Hello: a message, an actor, a tell, an ask.

    python examples/actors/hello.py

Prints:

    greeter: hello, Ada
    greeter: hello, Grace
    the main thread hears: 2 greetings so far
    alive: False
"""

from __future__ import annotations

from flykka.runtime import Actor, ActorSystem, Message, Props, message


@message("hello.greet")
class Greet(Message):
    """main -> Greeter: say hello to `whom`."""

    whom: str


@message("hello.count_greetings")
class CountGreetings(Message):
    """main -> Greeter: how many greetings were there? The reply is `Greetings`."""


@message("hello.greetings")
class Greetings(Message):
    """Greeter -> asker: the number of greetings."""

    count: int


class Greeter(Actor):
    """Says hello and counts. It needs no lock: an actor handles one message at a time."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._greetings = 0

    def handle_message(self, message: Message) -> None:
        """Handle a message. A message that matches no case is reported as unhandled, on the event stream."""
        match message:
            case Greet(whom=whom):
                self._greetings += 1
                print(f"greeter: {self._word}, {whom}")
            case CountGreetings():
                assert self.context.sender is not None
                self.context.sender.tell(Greetings(count=self._greetings))
            case _:
                self.context.unhandled(message)


def main() -> None:
    """Run a system with one actor. At the end of the block the actor is stopped."""
    with ActorSystem("hello") as system:
        greeter = system.spawn(Props(Greeter, "hello"), "greeter")
        greeter.tell(Greet(whom="Ada"))
        greeter.tell(Greet(whom="Grace"))
        answer = greeter.ask(CountGreetings(), timeout=5)
        print(f"the main thread hears: {answer.count} greetings so far")
    print(f"alive: {greeter.is_alive()}")


if __name__ == "__main__":
    main()
