"""Tests that texts and messages of PostgreSQL are parsed in the formats that PostgreSQL writes, without a server."""

from __future__ import annotations

import struct

import pytest

from flykka.spark_bridge.connectors.postgres.log_ranges import CdcPosition, lsn_number, lsn_text
from flykka.spark_bridge.connectors.postgres.pgoutput import (
    AbsentValue,
    LoggedChange,
    Truncation,
    VisibleTransactions,
    changes,
)
from flykka.spark_bridge.errors import SourceError


@pytest.mark.parametrize("text", ["0/0", "0/16B3748", "1A/FFFFFFFF"])
def test_a_log_position_is_converted_to_a_number(text: str) -> None:
    assert lsn_text(lsn_number(text)) == text


def test_a_position_in_another_format_is_refused() -> None:
    with pytest.raises(SourceError, match="is not a position of a PostgresCdcSource"):
        CdcPosition.read(b'{"next": {}}')


def test_a_snapshot_contains_transactions_finished_before_it() -> None:
    seen = VisibleTransactions.of("100:105:101,103")

    assert [xid for xid in range(98, 108) if xid in seen] == [98, 99, 100, 102, 104]


def test_wrapped_transaction_ids_are_compared_in_assignment_order() -> None:
    epoch = 1 << 32
    seen = VisibleTransactions.of(f"{epoch - 3}:{epoch + 2}:{epoch - 2}")

    ours = {number: (epoch + number) % epoch in seen for number in range(-4, 4)}

    assert [number for number, is_seen in ours.items() if is_seen] == [-4, -3, -1, 0, 1]


def test_messages_are_parsed_into_changes() -> None:
    relation = b"R" + struct.pack("!I", 7) + b"s\0t\0d" + struct.pack("!h", 2)
    relation += b"\1id\0" + struct.pack("!Ii", 20, -1) + b"\0body\0" + struct.pack("!Ii", 25, 9)
    begin = b"B" + struct.pack("!qqI", 500, 1_000_000, 42)
    whole = struct.pack("!h", 2) + b"t" + struct.pack("!i", 1) + b"1" + b"t" + struct.pack("!i", 1) + b"x"
    left = struct.pack("!h", 2) + b"t" + struct.pack("!i", 1) + b"1" + b"u"
    of_table = struct.pack("!I", 7)
    messages = [
        begin,
        relation,
        b"I" + of_table + b"N" + whole,
        b"U" + of_table + b"N" + left,
        b"U" + of_table + b"O" + whole + b"N" + left,
        b"D" + of_table + b"K" + whole,
        b"T" + struct.pack("!IbI", 1, 0, 7),
        b"C" + struct.pack("!bqqq", 0, 500, 510, 1_000_000),
    ]

    everything = list(changes((number, message) for number, message in enumerate(messages)))
    (truncation,) = (each for each in everything if isinstance(each, Truncation))
    parsed = [each for each in everything if isinstance(each, LoggedChange)]

    assert (truncation.oids, truncation.lsn, truncation.transaction.xid) == ((7,), 6, 42)
    assert parsed[0].relation.identity == {"id"}
    assert parsed[0].relation.types == {"id": (20, -1), "body": (25, 9)}
    assert [(each.before, each.after) for each in parsed] == [
        (None, ("1", "x")),
        (None, ("1", AbsentValue.UNCHANGED)),
        (("1", "x"), ("1", "x")),
        (("1", "x"), None),
    ]
    assert {(each.transaction.xid, each.transaction.at_ms, each.relation.name) for each in parsed} == {
        (42, 946_684_801_000, "t")
    }
