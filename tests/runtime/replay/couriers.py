"""A small group of actors to be recorded: couriers bring parcels to a depot, and retry if no receipt arrives."""

from __future__ import annotations

from pathlib import Path

from flykka.messages.wire.message import Message, message
from flykka.messages.wire.ref import Ref
from flykka.runtime.actor import Actor
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from flykka.runtime.testing.seeded import SeededSystem
from flykka.runtime.trace.file.reader import TraceReader
from flykka.runtime.trace.record.recorder import TraceRecorder

RETRY_MS = 1_000


@message("test.bring")
class Bring(Message):
    """test -> courier: bring this many parcels."""

    parcels: int


@message("test.parcel")
class Parcel(Message):
    """courier -> depot: a parcel."""

    number: int


@message("test.receipt")
class Receipt(Message):
    """depot -> courier: the parcel has arrived."""

    number: int


@message("test.retry")
class Retry(Message):
    """courier -> itself: the receipt is overdue."""


@message("test.weighed")
class Weighed(Message):
    """scales -> depot: the result of blocking work."""

    grams: int


class Courier(Actor):
    def __init__(self, depot: Ref) -> None:
        self.depot = depot
        self.waiting: list[int] = []
        self.brought = 0
        self.tries = 0

    def pre_start(self) -> None:
        self.context.watch(self.depot)

    def handle_message(self, message: Message) -> None:
        match message:
            case Bring(parcels=parcels):
                self.waiting = list(range(1, parcels + 1))
                self.bring()
            case Receipt(number=number) if self.waiting and self.waiting[0] == number:
                self.context.timers.cancel("retry")
                self.waiting.pop(0)
                self.brought += 1
                self.bring()
            case Retry():
                self.bring()
            case Terminated():
                self.context.timers.cancel("retry")
                self.depot = self.context.ref

    def bring(self) -> None:
        if self.waiting:
            self.tries += 1
            self.depot.tell(Parcel(number=self.waiting[0]))
            self.context.timers.start_once("retry", RETRY_MS, Retry())


class Depot(Actor):
    def __init__(self, scales: Scales, lost: int) -> None:
        self.scales = scales
        self.lost = lost
        self.kept: dict[Ref, list[int]] = {}
        self.grams = 0

    def handle_message(self, message: Message) -> None:
        match message:
            case Parcel() if self.lost:
                self.lost -= 1
            case Parcel(number=number):
                assert self.context.sender is not None
                self.kept.setdefault(self.context.sender, []).append(number)
                self.context.sender.tell(Receipt(number=number))
                self.context.pipe_to_self(
                    lambda: self.scales.weigh(number), lambda grams: Weighed(grams=grams), lambda _: Weighed(grams=0)
                )
            case Weighed(grams=grams):
                self.grams += grams


class Scales:
    """An object that cannot be written to a trace."""

    def __init__(self) -> None:
        self.weighed: list[int] = []

    def weigh(self, parcel: int) -> int:
        self.weighed.append(parcel)
        return 100 * parcel


SCALES = f"{Scales.__module__}:{Scales.__qualname__}"


def record_deliveries(
    path: Path, *, seed: int = 3, parcels: int = 3, lost: int = 0, ring: int | None = None
) -> TraceReader:
    """Record two couriers that each bring `parcels` parcels. The first `lost` parcels are lost and brought again."""
    with SeededSystem(seed, name="couriers", recorder=TraceRecorder(path, ring=ring)) as system:
        depot = system.spawn(Props(Depot, Scales(), lost), "depot")
        couriers = [system.spawn(Props(Courier, depot), f"courier-{name}") for name in "ab"]
        system.run_until_idle()
        for courier in couriers:
            courier.tell(Bring(parcels=parcels))
        system.advance(10_000)
    return TraceReader.open(path)
