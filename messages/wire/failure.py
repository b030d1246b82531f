"""A failure as it travels: as text, never as a living exception."""

from __future__ import annotations

from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.message import Value, value


@value("failure.serialized_throwable")
class SerializedThrowable(Value):
    """Type, text and stack text of a failure; `suppress_restarts` marks one that no restart can mend.

    `type_name` is the plain name of a class, without its module, whether there is such a class or not. Where it is that
    a result partition cannot be read any more, `lost_partition` names it: its producer is to run again (Flink's
    PartitionException).
    """

    type_name: str
    message: str
    stack_trace: str = ""
    suppress_restarts: bool = False
    lost_partition: ResultPartitionId | None = None

    @property
    def headline(self) -> str:
        """The plain name of the type, and the first line of the message."""
        first_line = self.message.strip().partition("\n")[0]
        return f"{self.type_name.rpartition('.')[2]}: {first_line}"


def suppresses_restarts(error: BaseException) -> bool:
    """Report whether the exception, or one of its causes however deep, has the attribute `suppress_restarts` set.

    A class sets it if the next attempt would fail in the same way (Flink's SuppressRestartsException).
    """
    return any(getattr(each, "suppress_restarts", False) is True for each in causes(error))


def causes(error: BaseException) -> list[BaseException]:
    """Return the exception and its causes, each once: a chain may lead back into itself."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and not any(cause is known for known in chain):
        chain.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return chain
