"""A travel agency with a planted bug: a repeated acknowledgement counts twice.

The agent of a trip asks all suppliers to reserve, repeats the request if one is silent for two seconds, and books when
all have reserved. This is a small model of the checkpoint protocol, with its best known bug, which
docs/finding_a_bug.md finds step by step.
"""

from __future__ import annotations

from collections.abc import Mapping

from flykka.runtime import Actor, Message, Props, Ref, message


@message("trip.book")
class BookTrip(Message):
    """asker -> TravelAgent: reserve with all suppliers; answered by `TripBooked`."""

    traveller: str


@message("trip.booked")
class TripBooked(Message):
    """TravelAgent -> asker: all have reserved."""

    reserved: tuple[str, ...]


@message("trip.reserve")
class Reserve(Message):
    """TravelAgent -> Supplier: reserve; each request is answered by `Reserved`."""

    traveller: str


@message("trip.reserved")
class Reserved(Message):
    """Supplier -> TravelAgent: done."""

    supplier: str


@message("trip.ask_again")
class AskAgain(Message):
    """TravelAgent -> itself: some suppliers have not replied."""


@message("trip.answer")
class Answer(Message):
    """Supplier -> itself: the reservation is done."""

    to: Ref


class TravelAgent(Actor):
    """Books one trip. `suppliers` maps the suppliers to their delays."""

    def __init__(self, suppliers: Mapping[str, str]) -> None:
        self._delays = suppliers
        self._suppliers: dict[str, Ref] = {}
        self._reserved: list[str] = []
        self._traveller = ""
        self._asker: Ref | None = None

    def pre_start(self) -> None:
        """Spawn the suppliers."""
        for name, delay in self._delays.items():
            self._suppliers[name] = self.context.spawn(Props(Supplier, name, delay), name)

    def handle_message(self, message: Message) -> None:
        """Handle a message."""
        match message:
            case BookTrip(traveller=traveller):
                self._traveller, self._asker = traveller, self.context.sender
                self._ask()
            case AskAgain():
                self._ask()
            case Reserved(supplier=supplier):
                self._on_reserved(supplier)
            case _:
                self.context.unhandled(message)

    def _ask(self) -> None:
        for name, supplier in self._suppliers.items():
            if name not in self._reserved:
                supplier.tell(Reserve(traveller=self._traveller))
        self.context.timers.start_once("ask again", "2s", AskAgain())

    def _on_reserved(self, supplier: str) -> None:
        self._reserved.append(supplier)
        if len(self._reserved) == len(self._suppliers):
            assert self._asker is not None
            self.context.timers.cancel("ask again")
            self._asker.tell(TripBooked(reserved=tuple(self._reserved)))


class Supplier(Actor):
    """Reserves after a delay."""

    def __init__(self, name: str, delay: str) -> None:
        self._name = name
        self._delay = delay
        self._asked = 0

    def handle_message(self, message: Message) -> None:
        """Handle a message."""
        match message:
            case Reserve():
                assert self.context.sender is not None
                self._asked += 1
                self.context.timers.start_once(self._asked, self._delay, Answer(to=self.context.sender))
            case Answer(to=agent):
                agent.tell(Reserved(supplier=self._name))
            case _:
                self.context.unhandled(message)
