"""Bids like those of Nexmark, the benchmark of streaming auctions: made from a seed, in parquet files.

Of 50 events of Nexmark's, 46 are bids, 3 open an auction and 1 registers a person; 10,000 happen per second. Every
other bid is for the hot auction, which changes with every hundredth that is opened, the rest for one of the last
hundred or of the ten to come; bidders are chosen alike. So a second has 9,200 bids on some seven hundred auctions.
Event time ascends.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SEED = 1
SCHEMA = "auction bigint, bidder bigint, price bigint, channel string, event_time timestamp"

_EVENTS_PER_EPOCH, _BIDS_PER_EPOCH, _AUCTIONS_PER_EPOCH = 50, 46, 3
_MICROS_PER_EVENT = 100
_FIRST_EVENT_MICROS = 1_767_225_600_000_000
_FIRST_ID = 1_000
_AUCTIONS_IN_FLIGHT, _AUCTION_LEAD = 100, 10
_ACTIVE_PEOPLE, _PERSON_LEAD = 1_000, 10
_ONE_OF_HOT = 100
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_OTHER_CHANNELS = 10_000

_CHANNELS = pa.array([*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_OTHER_CHANNELS))])

Integers = NDArray[np.int64]


def bids(first: int, rows: int, seed: int) -> pa.Table:
    """`rows` bids from number `first` on. A seed makes the same of the same `first` and `rows`."""
    chance = np.random.default_rng((seed, first))
    number = np.arange(first, first + rows, dtype=np.int64)
    epoch, place = np.divmod(number, _BIDS_PER_EPOCH)
    event = epoch * _EVENTS_PER_EPOCH + (_EVENTS_PER_EPOCH - _BIDS_PER_EPOCH) + place
    newest_auction = (epoch + 1) * _AUCTIONS_PER_EPOCH - 1
    columns = {
        "auction": _FIRST_ID + _chosen(chance, newest_auction, _AUCTIONS_IN_FLIGHT, _AUCTION_LEAD, hot_share=1 / 2),
        "bidder": _FIRST_ID + _chosen(chance, epoch, _ACTIVE_PEOPLE, _PERSON_LEAD, hot_share=3 / 4),
        # From one to a million, in cents, small ones as likely as large ones.
        "price": np.rint(100 * 10 ** (6 * chance.random(rows))).astype(np.int64),
        "channel": pa.DictionaryArray.from_arrays(_channel(chance, rows), _CHANNELS),
        # With a time zone: without one Spark would read a TIMESTAMP_NTZ and refuse it as event time.
        "event_time": pa.array(_FIRST_EVENT_MICROS + event * _MICROS_PER_EVENT, pa.timestamp("us", tz="UTC")),
    }
    return pa.table(columns)


def prepared(rows: int, files: int, seed: int = SEED) -> Path:
    """The folder of so many bids in so many files of about one size; written unless an earlier run has done so."""
    folder = Path(tempfile.gettempdir()) / "flykka-benchmark" / f"bids-{rows}-{files}-{seed}"
    if not folder.exists():
        unfinished = folder.with_name(f".{folder.name}-{os.getpid()}")
        write(unfinished, rows, files, seed)
        unfinished.rename(folder)
    return folder


def write(folder: Path, rows: int, files: int, seed: int = SEED) -> None:
    """Write the bids into a new folder. The order of the files, by name and by age, is that of event time."""
    folder.mkdir(parents=True)
    for number in range(files):
        first, behind = (rows * n // files for n in (number, number + 1))
        path = folder / f"bids-{number:05}.parquet"
        pq.write_table(bids(first, behind - first, seed), path)
        # Structured Streaming reads files by age, and tells it in milliseconds.
        os.utime(path, (number, number))


def _chosen(chance: np.random.Generator, newest: Integers, in_flight: int, lead: int, hot_share: float) -> Integers:
    """Draw one of the last `in_flight` or the next `lead`, or with this probability the hot one."""
    oldest = np.maximum(newest - in_flight, 0)
    any_of_them = chance.integers(oldest, newest + lead + 1)
    return np.where(chance.random(len(newest)) < hot_share, newest // _ONE_OF_HOT * _ONE_OF_HOT, any_of_them)


def _channel(chance: np.random.Generator, rows: int) -> NDArray[np.int32]:
    hot = chance.integers(0, len(_HOT_CHANNELS), rows, dtype=np.int32)
    other = chance.integers(len(_HOT_CHANNELS), len(_CHANNELS), rows, dtype=np.int32)
    return np.where(chance.random(rows) < 1 / 2, hot, other)
