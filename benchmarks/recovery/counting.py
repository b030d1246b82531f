"""Compares the rows that a reader of the output folders sees with the expected rows.

Spark is not used, because it is a contestant.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from benchmarks.recovery import sales

_HOURLY = ["window_start", "shop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Missing and surplus rows over all outputs; a wrong sum counts as the number of sales by which it is wrong."""

    lost: int = 0
    duplicated: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(lost=self.lost + other.lost, duplicated=self.duplicated + other.duplicated)


def counted(folder: Path, truth: pd.DataFrame) -> Counted:
    """Count the rows below `folder` that are missing, and those that occur too often."""
    return (
        _each(_read(sales.each(folder)), truth)
        + _each(_read(sales.each_again(folder)), truth)
        + _sums(_read(sales.hourly(folder)), truth)
        + _so_far(_read(sales.so_far(folder)), truth)
    )


def _each(found: pd.DataFrame, truth: pd.DataFrame) -> Counted:
    times = _times(found, "sale").reindex(truth["sale"], fill_value=0)
    foreign = len(found) - int(times.sum())
    wrong = _wrong_amounts(found, truth)
    return Counted(lost=int((times == 0).sum()) + wrong, duplicated=int((times - 1).clip(lower=0).sum()) + foreign)


def _times(found: pd.DataFrame, column: str) -> pd.Series[int]:
    return found[column].value_counts() if column in found else pd.Series(dtype="int64")


def _wrong_amounts(found: pd.DataFrame, truth: pd.DataFrame) -> int:
    if found.empty:
        return 0
    both = found.merge(truth, on="sale", suffixes=("", "_true"))
    return int(((both["amount"] != both["amount_true"]) | (both["shop"] != both["shop_true"])).sum())


def _sums(found: pd.DataFrame, truth: pd.DataFrame) -> Counted:
    right = truth.assign(window_start=truth["at"].dt.floor("h")).groupby(_HOURLY)["amount"].agg(["size", "sum"])
    if found.empty:
        return Counted(lost=int(right["size"].sum()))
    summed = found.groupby(_HOURLY)[["sales", "total"]].sum()
    return _beside(right, summed) + Counted(duplicated=len(found) - len(summed))


def _so_far(found: pd.DataFrame, truth: pd.DataFrame) -> Counted:
    right = truth.groupby("shop")["amount"].agg(["size", "sum"])
    if found.empty:
        return Counted(lost=int(right["size"].sum()))
    last = found.sort_values("sales").groupby("shop")[["sales", "total"]].last()
    return _beside(right, last) + Counted(duplicated=int(found.duplicated(["shop", "sales"]).sum()))


def _beside(right: pd.DataFrame, found: pd.DataFrame) -> Counted:
    """Count the sales by which sums are wrong, comparing each sum with the expected one."""
    beside = right.join(found, how="outer").fillna(0)
    difference = beside["sales"] - beside["size"]
    # If only the sum is wrong, some sales were lost, and others were counted twice.
    swapped = int(((difference == 0) & (beside["total"] != beside["sum"])).sum())
    return Counted(lost=int(-difference.clip(upper=0).sum()) + swapped, duplicated=int(difference.clip(lower=0).sum()))


def _read(output: Path) -> pd.DataFrame:
    parts = [pq.ParquetFile(path).read().to_pandas() for path in sorted(output.glob("*.parquet"))]
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    for column in rows.columns.intersection(["at", "window_start"]):
        # Spark's timestamps are in UTC, but are read without a time zone.
        rows[column] = pd.to_datetime(rows[column], utc=True)
    return rows
