"""A failure as text, which can be sent and stored, never as a live exception."""

from __future__ import annotations

from flykka.messages.wire.ids import ResultPartitionId
from flykka.messages.wire.message import Value, value


@value("failure.serialized_throwable")
class SerializedThrowable(Value):
    """The type, message and stack trace of a failure. `suppress_restarts` marks a failure that no restart can repair.

    `type_name` is the name of a class without its module; the class need not exist. If a result partition can no longer
    be read, `lost_partition` names it, because its producer has to run again (Flink's PartitionException).
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
    """Return True if the exception, or any of its direct or indirect causes, has the attribute `suppress_restarts` set.

    A class sets the attribute if the next attempt would fail in the same way (Flink's SuppressRestartsException).
    """
    return any(getattr(each, "suppress_restarts", False) is True for each in causes(error))


def causes(error: BaseException) -> list[BaseException]:
    """Return the exception and its causes, each once, because a chain may be cyclic."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and not any(cause is other for other in chain):
        chain.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return chain
