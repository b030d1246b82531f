"""Generates the events of Nexmark, the benchmark of streaming auctions: persons, auctions and bids.

Of 50 events 1 registers a person, 3 open an auction and 46 are bids. There are 10,000 events per second of event time,
in ascending order. Every other bid is for the hot auction, which changes with every hundredth new auction; all other
bids are for one of the last hundred or the next ten auctions. Bidders and sellers are chosen in the same way, three of
four of them hot. Auctions last a third of a second at most, so that a hundred of them are open at a time.

Random values are hashes of the event's number, the seed and the field, so an event is the same in every batch, subtask
and run. The rules are those of https://github.com/nexmark/nexmark, with two exceptions: times have microseconds, so
that they are unique, and bidders have the ids of persons.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PERSON, AUCTION, BID = 0, 1, 2
"""The values of `event_type`."""

PERSONS_PER_EPOCH, AUCTIONS_PER_EPOCH, BIDS_PER_EPOCH = 1, 3, 46
EVENTS_PER_EPOCH = PERSONS_PER_EPOCH + AUCTIONS_PER_EPOCH + BIDS_PER_EPOCH
"""Persons, auctions and bids are generated in this order, repeatedly."""

EVENTS_PER_SECOND = 10_000
"""The number of events per second of event time."""

FIRST_EVENT_MICROS = 1_767_225_600_000_000
"""The time of event 0, in microseconds since the epoch: the beginning of 2026."""

_MICROS_PER_EVENT = 1_000_000 // EVENTS_PER_SECOND
_FIRST_ID = 1_000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_AUCTIONS_IN_FLIGHT, _AUCTION_LEAD = 100, 10
_ACTIVE_PEOPLE, _PERSON_LEAD = 1_000, 10
_ONE_OF_HOT = 100
_AUCTION_MS = _AUCTIONS_IN_FLIGHT * EVENTS_PER_EPOCH // AUCTIONS_PER_EPOCH * _MICROS_PER_EVENT // 1_000
"""The average duration of auctions in ms, in which as many are opened as are in flight."""

_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 200, 500, 100
"""The average sizes of events in bytes; `extra` pads events to them."""

_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_OTHER_CHANNELS = 10_000
_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_CITIES = pa.array(
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
)
_FIRST_NAMES = pa.array(
    ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
)
_LAST_NAMES = pa.array(["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"])
_FOUR_DIGITS = pa.array([f"{number:04}" for number in range(10_000)])

_TIME = pa.timestamp("us", tz="UTC")
"""The type of event times. Without a time zone, Spark would read a TIMESTAMP_NTZ and refuse it as event time."""

Numbers = NDArray[np.uint64]
Integers = NDArray[np.int64]


def events(numbers: Integers, seed: int) -> pa.Table:
    """Generate the events with these numbers: `event_type`, `person`, `auction`, `bid` and `dateTime`.

    Numbers begin at 0. Of the three structs only that of the event's type is set.
    """
    place = numbers % EVENTS_PER_EPOCH
    kind = (place >= PERSONS_PER_EPOCH).astype(np.int32) + (place >= PERSONS_PER_EPOCH + AUCTIONS_PER_EPOCH)
    made = ((PERSON, "person", persons), (AUCTION, "auction", auctions), (BID, "bid", bids))
    structs = {name: _spread(kind == of, make(numbers[kind == of], seed)) for of, name, make in made}
    return pa.table({"event_type": pa.array(kind, pa.int32()), **structs, "dateTime": times(numbers)})


def times(numbers: Integers) -> pa.Array:
    return pa.array(FIRST_EVENT_MICROS + numbers * _MICROS_PER_EVENT, _TIME)


def persons(numbers: Integers, seed: int) -> pa.Table:
    chance = _Chance(numbers, seed)
    name = pc.binary_join_element_wise(chance.of(_FIRST_NAMES, "first name"), chance.of(_LAST_NAMES, "last name"), " ")
    user, host = chance.word("user", 7), chance.word("host", 5)
    email = pc.binary_join_element_wise(pc.binary_join_element_wise(user, host, "@"), ".com", "")
    digits = [chance.of(_FOUR_DIGITS, f"digits {part}") for part in range(4)]
    columns = {
        "id": _FIRST_ID + _newest_person(numbers),
        "name": name,
        "emailAddress": email,
        "creditCard": pc.binary_join_element_wise(*digits, " "),
        "city": chance.of(_CITIES, "city"),
        "state": chance.of(_STATES, "state"),
    }
    sizes = [_lengths(columns[field]) for field in ("name", "emailAddress", "creditCard", "city", "state")]
    return pa.table({**columns, "extra": chance.extra(8 + np.sum(sizes, axis=0), _PERSON_BYTES)})


def auctions(numbers: Integers, seed: int) -> pa.Table:
    chance = _Chance(numbers, seed)
    person = _newest_person(numbers)
    is_hot = chance.below(4, "is hot seller") > 0
    seller = np.where(is_hot, person // _ONE_OF_HOT * _ONE_OF_HOT, _any_person(person, chance, "seller"))
    initial = chance.price("initial bid")
    lasts_ms = 1 + chance.below(2 * _AUCTION_MS, "lasts")
    name, description = chance.word("item", 20, " "), chance.word("description", 100, " ")
    columns = {
        "id": _FIRST_ID + _newest_auction(numbers),
        "itemName": name,
        "description": description,
        "initialBid": initial,
        "reserve": initial + chance.price("reserve"),
        "expires": pa.array(FIRST_EVENT_MICROS + numbers * _MICROS_PER_EVENT + 1_000 * lasts_ms, _TIME),
        "seller": _FIRST_ID + seller,
        "category": _FIRST_CATEGORY + chance.below(_CATEGORIES, "category"),
    }
    sizes = 48 + _lengths(name) + _lengths(description)
    return pa.table({**columns, "extra": chance.extra(sizes, _AUCTION_BYTES)})


def bids(numbers: Integers, seed: int) -> pa.Table:
    chance = _Chance(numbers, seed)
    newest, person = _newest_auction(numbers), _newest_person(numbers)
    oldest = np.maximum(newest - _AUCTIONS_IN_FLIGHT, 0)
    any_auction = oldest + chance.below(newest - oldest + 1 + _AUCTION_LEAD, "auction")
    is_hot = chance.below(2, "is hot auction") > 0
    is_hot_bidder = chance.below(4, "is hot bidder") > 0
    # The hot bidder is another one of each hundred persons than the hot seller.
    hot_bidder = person // _ONE_OF_HOT * _ONE_OF_HOT + 1
    channel = np.where(
        chance.below(2, "is hot channel") > 0,
        chance.below(len(_HOT_CHANNELS), "hot channel"),
        len(_HOT_CHANNELS) + chance.below(_OTHER_CHANNELS, "channel"),
    )
    columns = {
        "auction": _FIRST_ID + np.where(is_hot, newest // _ONE_OF_HOT * _ONE_OF_HOT, any_auction),
        "bidder": _FIRST_ID + np.where(is_hot_bidder, hot_bidder, _any_person(person, chance, "bidder")),
        "price": chance.price("price"),
        "channel": _CHANNELS.take(pa.array(channel)),
        "url": _URLS.take(pa.array(channel)),
    }
    return pa.table({**columns, "extra": chance.extra(np.full(len(numbers), 32), _BID_BYTES)})


def _newest_person(numbers: Integers) -> Integers:
    """Return the number of the newest person, from 0, at the time of these events."""
    return numbers // EVENTS_PER_EPOCH * PERSONS_PER_EPOCH


def _newest_auction(numbers: Integers) -> Integers:
    """Return the number of the newest auction, from 0, at the time of these events."""
    epoch, place = np.divmod(numbers, EVENTS_PER_EPOCH)
    return epoch * AUCTIONS_PER_EPOCH + np.clip(place - PERSONS_PER_EPOCH, -1, AUCTIONS_PER_EPOCH - 1)


def _any_person(newest: Integers, chance: _Chance, field: str) -> Integers:
    """Draw one of the persons that are active, or that will be."""
    active = np.minimum(newest + 1, _ACTIVE_PEOPLE)
    return newest + 1 - active + chance.below(active + _PERSON_LEAD, field)


def _lengths(strings: pa.Array) -> Integers:
    lengths: Integers = pc.binary_length(strings).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _spread(is_there: NDArray[np.bool_], rows: pa.Table) -> pa.Array:
    """Return an array of structs with these rows where `is_there` is true, and nulls elsewhere."""
    place = np.cumsum(is_there) - 1
    return rows.to_struct_array().combine_chunks().take(pa.array(place, mask=~is_there))


class _Chance:
    """Draws fields of events: numbers, words and prices that depend only on the event's number and the seed."""

    def __init__(self, numbers: Integers, seed: int) -> None:
        self._numbers = numbers.astype(np.uint64)
        self._seed = seed

    def below(self, bound: int | Integers, field: str) -> Integers:
        """Draw integers from 0, below a bound of at most 31 bits."""
        drawn = (self._bits(field) >> np.uint64(32)) * np.asarray(bound).astype(np.uint64) >> np.uint64(32)
        return drawn.astype(np.int64)

    def price(self, field: str) -> Integers:
        """Draw prices from one to a million, in cents, with uniformly distributed logarithms."""
        part = (self._bits(field) >> np.uint64(11)) * 2.0**-53
        return np.rint(100 * 10 ** (6 * part)).astype(np.int64)

    def of(self, values: pa.Array, field: str) -> pa.Array:
        """Draw from these values with equal probability."""
        return values.take(pa.array(self.below(len(values), field)))

    def word(self, field: str, behind: int, special: str | None = None) -> pa.Array:
        """Draw words of three to less than `behind` letters, without spaces at the ends.

        One letter of thirteen is `special`, if set.
        """
        starts, lengths = self.below(_TEXT, field), 3 + self.below(behind - 3, f"length of {field}")
        if special is None:
            return _cut(_LETTERS, starts, lengths)
        return pc.utf8_trim_whitespace(pc.replace_substring(_cut(_SPACED, starts, lengths), " ", special))

    def extra(self, sizes: Integers, average: int) -> pa.Array:
        """Draw letters that pad events with these sizes to an average size, plus or minus a fifth."""
        missing = np.maximum(average - sizes, 0)
        spread = np.rint(missing * 0.2).astype(np.int64)
        return _cut(_LETTERS, self.below(_TEXT, "extra"), missing - spread + self.below(2 * spread, "length of extra"))

    def _bits(self, field: str) -> Numbers:
        return _mixed(self._numbers, int.from_bytes(blake2b(f"{self._seed} {field}".encode(), digest_size=8).digest()))


def _mixed(numbers: Numbers, key: int) -> Numbers:
    """Return 64 pseudo-random bits for each number (the finalizer of SplitMix64)."""
    bits = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)


def _cut(text: NDArray[np.uint8], starts: Integers, lengths: Integers) -> pa.Array:
    """Return slices of a text with these starts and lengths."""
    longest = int(lengths.max(initial=1))
    pieces = np.lib.stride_tricks.sliding_window_view(text, longest)[starts]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    letters = pieces[np.arange(longest) < lengths[:, np.newaxis]]
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(letters))


_TEXT = 2**20
"""The number of possible starts of slices in the two texts; the longest slice has less than a thousand letters."""

_drawn = _mixed(np.arange(_TEXT + 1_000, dtype=np.uint64), 0)
_LETTERS = (97 + (_drawn >> np.uint64(32)) % np.uint64(26)).astype(np.uint8)
_SPACED = np.where(_drawn % np.uint64(13) == 0, np.uint8(32), _LETTERS)


def _urls() -> pa.Array:
    """Return the URLs of the channels: three folders each, and for nine of ten cold channels the channel's id.

    The id is the channel's number with its bits reversed, as a positive integer of 32 bits.
    """
    channels = np.arange(len(_CHANNELS))
    chance = _Chance(channels, 0)
    folders = [chance.word(f"folder {depth}", 5, "_") for depth in range(3)]
    start, end = (pa.repeat(text, len(channels)) for text in ("https://www.nexmark.com", "item.htm?query=1"))
    urls = pc.binary_join_element_wise(start, *folders, end, "/")
    has_id = (channels >= len(_HOT_CHANNELS)) & (chance.below(10, "has id") > 0)
    backwards = [int(f"{number:032b}"[::-1], 2) for number in range(_OTHER_CHANNELS)]
    ids = [0] * len(_HOT_CHANNELS) + [min(number, 2**32 - number) for number in backwards]
    with_ids = pc.binary_join_element_wise(urls, pa.array(map(str, ids)), "&channel_id=")
    return pc.if_else(pa.array(has_id), with_ids, urls)


_CHANNELS = pa.array([*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_OTHER_CHANNELS))])
_URLS = _urls()
