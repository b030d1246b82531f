"""Scripted actors whose `handle_message` is a coroutine function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from flykka.messages.wire.message import Message
from flykka.runtime.actor import Actor
from flykka.runtime.context import ActorContext
from flykka.runtime.props import Props
from flykka.runtime.signals import Terminated
from tests.runtime.scripted_actors import Say

AsyncDeed = Callable[[ActorContext], Awaitable[object]]


class Coroutines(Actor):
    """For each word, awaits the coroutine in the script, and logs the word before and after the coroutine."""

    def __init__(self, log: list[str], script: dict[str, AsyncDeed]) -> None:
        self.log = log
        self.script = script

    async def handle_message(self, message: Message) -> None:
        match message:
            case Say(text=text):
                self.log.append(f"{text} begins")
                try:
                    deed = self.script.get(text)
                    if deed is not None:
                        await deed(self.context)
                except asyncio.CancelledError:
                    self.log.append(f"{text} cancelled")
                    raise
                self.log.append(f"{text} ends")
            case Terminated(ref=ref):
                self.log.append(f"sees the end of {ref.path}")

    def post_stop(self) -> None:
        self.log.append("stop")

    def post_restart(self, cause: BaseException | None) -> None:
        self.log.append("restart")


def coroutines(log: list[str], **script: AsyncDeed) -> Props:
    return Props(Coroutines, log, script)


async def sleeps(context: ActorContext) -> None:
    await context.sleep("5s")
