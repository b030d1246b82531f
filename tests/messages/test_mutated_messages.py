"""Any bytes are decoded to a message or raise the codec's errors, quickly and with little memory."""

from __future__ import annotations

import os
import time
import tracemalloc
from random import Random

import msgpack
import pytest

from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DecodeError
from flykka.messages.wire.unpacking import MAX_NESTING, is_nested_deeply
from tests.messages.mutations import Mutator, chained, nested, recorded_messages

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("FLYKKA_MUTATIONS_SEED", "1"))
COUNT = int(os.environ.get("FLYKKA_MUTATED_MESSAGES", "1000000"))
MIB = 1 << 20


def decode_mutations(count: int, seed: int) -> dict[str, int]:
    """Return the number of mutated messages for each outcome."""
    messages, mutator, random = recorded_messages(), Mutator(seed), Random(seed)
    outcomes, longest = {"decoded": 0, "DecodeError": 0}, 0
    for number in range(count):
        data = mutator.mutated(random.choice(messages), messages)
        try:
            value = decode(data)
        except DecodeError as error:
            outcomes["DecodeError"] += 1
            longest = max(longest, len(str(error)))
            continue
        except BaseException as error:
            raise AssertionError(f"mutation {number} of seed {seed}: {data[:200]!r}") from error
        outcomes["decoded"] += 1
        assert decode(encode(value)) == value or "nan" in repr(value)
    assert longest < 2_000
    return outcomes


def test_mutated_messages_are_decoded_or_refused() -> None:
    outcomes = decode_mutations(1_500, SEED)

    assert min(outcomes.values()) > 100


@pytest.mark.long
def test_many_mutated_messages_are_decoded_or_refused() -> None:
    outcomes = decode_mutations(COUNT, SEED)

    print(outcomes)
    assert sum(outcomes.values()) == COUNT


BOMBS = {
    "arrays that claim items": b"\xdd\x00\x0f\x00\x00" * 1000 + b"\xc0" * MIB,
    "maps that claim items": b"\xdf\x00\x0f\x00\x00\xa0" * 1000 + b"\xc0" * MIB,
    "empty maps": msgpack.packb({"": "leader.session_message", "x": [{}] * (MIB // 4)}),
    "nested arrays": msgpack.packb({"": "leader.session_message", "message": nested(500)}),
    "nested messages": msgpack.packb(chained(250)),
    "a long tag": msgpack.packb({"": "a" * MIB}),
    "a long ref": msgpack.packb({"": "actor.kill", "ref": msgpack.ExtType(1, bytes(MIB))}),
}


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_a_decompression_bomb_is_refused_with_little_memory(data: bytes) -> None:
    began = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError) as refused:
            decode(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert len(str(refused.value)) < 300
    assert peak < 256 * MIB
    assert time.process_time() - began < 5


def test_nesting_levels_include_the_outermost() -> None:
    assert not is_nested_deeply(nested(MAX_NESTING))
    assert is_nested_deeply(nested(MAX_NESTING + 1))
    assert not is_nested_deeply(1, 0)
