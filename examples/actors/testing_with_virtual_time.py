"""Testing with virtual time: waiting for minutes takes no time, and the order of messages is reproducible.

The uploader below waits 10 seconds for each reply, with increasing delays between its attempts. Its tests run on one
thread, where time advances only when nothing else can happen. They are plain functions: pytest runs this file, too.

    python examples/actors/testing_with_virtual_time.py

Prints:

    stored at the third attempt, after 23 s
    given up after 33 s
    who comes first in the orders of 20 seeds: Ada, Grace
    the same seed, the same order: True
"""

from __future__ import annotations

from flykka.runtime import Actor, ActorRef, AskTimeoutError, Message, Props, message
from flykka.runtime.testing import SeededSystem, TestProbe


@message("upload.upload")
class Upload(Message):
    """user -> Uploader: store this. The reply is `Stored` or `GivenUp`."""

    name: str


@message("upload.stored")
class Stored(Message):
    """store -> Uploader -> user: the upload is stored."""

    name: str


@message("upload.given_up")
class GivenUp(Message):
    """Uploader -> user: the store does not reply."""

    name: str


class Uploader(Actor):
    """Sends an upload to the store up to three times. Its coroutine waits without blocking a thread."""

    def __init__(self, store: ActorRef) -> None:
        self._store = store

    async def handle_message(self, message: Message) -> None:
        assert isinstance(message, Upload)
        assert self.context.sender is not None
        for pause in ("1s", "2s", None):
            try:
                answer = await self._store.ask(message, block=False, timeout=10)
            except AskTimeoutError:
                if pause is not None:
                    await self.context.sleep(pause)
            else:
                self.context.sender.tell(answer)
                return
        self.context.sender.tell(GivenUp(name=message.name))


def test_the_uploader_tries_again() -> None:
    """Test with a probe in place of the store, which ignores two requests and replies to the third."""
    with SeededSystem() as system:
        store, user = TestProbe(system, "store"), TestProbe(system, "user")
        user.send(system.spawn(Props(Uploader, store.ref), "uploader"), Upload(name="a.csv"))

        for _ in range(3):
            store.expect_message(Upload, timeout=15)
        store.reply(Stored(name="a.csv"))

        user.expect_message(Stored(name="a.csv"))
        print(f"stored at the third attempt, after {system.manual_clock.now_ms() // 1000} s")


def test_the_uploader_gives_up() -> None:
    """Test with a store that never replies; half a minute of waiting takes no time."""
    with SeededSystem() as system:
        store, user = TestProbe(system, "store"), TestProbe(system, "user")
        user.send(system.spawn(Props(Uploader, store.ref), "uploader"), Upload(name="a.csv"))

        with user.within(60, at_least=30):
            user.expect_message(GivenUp)
        print(f"given up after {system.manual_clock.now_ms() // 1000} s")


def first_in_the_order_of(seed: int) -> str:
    """Let two users upload at the same time. Only the seed decides whose message comes first."""
    with SeededSystem(seed) as system:
        store = TestProbe(system, "store")
        for name in ("Ada", "Grace"):
            uploader = system.spawn(Props(Uploader, store.ref), f"uploader-of-{name}")
            TestProbe(system, name).send(uploader, Upload(name=name))
        return store.expect_message(Upload).name


def main() -> None:
    """Run the tests, which print their virtual time, and compare the order of messages for several seeds."""
    test_the_uploader_tries_again()
    test_the_uploader_gives_up()
    first = {first_in_the_order_of(seed) for seed in range(20)}
    print(f"who comes first in the orders of 20 seeds: {', '.join(sorted(first))}")
    again = {first_in_the_order_of(7) for _ in range(5)}
    print(f"the same seed, the same order: {len(again) == 1}")


if __name__ == "__main__":
    main()
