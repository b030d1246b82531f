"""Area 09, sender: the reader of a subpartition and what it is sent."""

from __future__ import annotations

from flykka.actors.machines.exchange.effects import PRODUCER_FAILED_ERROR, TellPeer
from flykka.actors.machines.exchange.result_partition import ResultPartition
from flykka.messages.tasks.exchange import ErrorResponse
from flykka.messages.wire.failure import SerializedThrowable
from tests.actors.machines.exchange.builders import CONSUMER, descriptor
from tests.conformance.case_files import Case, UnknownWordError, only_known_words

CAUSE = SerializedThrowable(type_name="ValueError", message="the producer has failed")


def run_sender(case: Case) -> None:
    """Run a case about a reader whose producer fails."""
    only_known_words("given", case["given"], {"kind", "readers"})
    [(name, reader)] = case["given"]["readers"].items()
    if reader != {"credit": reader["credit"], "items": [], "view": "released, with a failure cause"}:
        raise UnknownWordError(f"reader: {reader}")
    assert case["steps"] == [{"do": "notify"}]
    partition = ResultPartition(descriptor())

    partition.request(0, reader["credit"], CONSUMER)
    (told,) = partition.fail(CAUSE)

    assert isinstance(told, TellPeer)
    assert isinstance(told.message, ErrorResponse)
    blames_producer = told.message.cause.type_name == PRODUCER_FAILED_ERROR
    assert {"error_sent_to": name, "error": "CANCEL_TASK" if blames_producer else "ERROR"} == case["expect"]
