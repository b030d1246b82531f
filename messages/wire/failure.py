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
