"""TPC-H and TPC-DS: their tables, keys and queries, which DuckDB generates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from duckdb_extensions import import_extension


class SuiteName(StrEnum):
    """The names of the suites, which are those of DuckDB's extensions."""

    TPCH = "tpch"
    TPCDS = "tpcds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite: `documents` are tables whose rows belong together, with the column that identifies the document.

    The first table of each document is the leading one. `updated` are other tables with rows that are updated,
    `checked` the queries that are run by default.
    """

    name: SuiteName
    generator: str
    keys: Mapping[str, tuple[str, ...]]
    documents: tuple[Mapping[str, str], ...]
    updated: tuple[str, ...]
    checked: tuple[str, ...]

    def tables(self, scale: float) -> dict[str, pa.Table]:
        with self._connection() as connection:
            connection.execute(f"CALL {self.generator}(sf={scale})")
            return {name: connection.execute(f"FROM {name}").to_arrow_table() for name in self.keys}

    @property
    def queries(self) -> dict[str, str]:
        """The texts of all queries, by their names: `q1` and so on."""
        return dict(_queries(self.name))

    def tables_read(self, query: str) -> list[str]:
        """Return the tables that a query reads; columns and aliases may have the names of other tables."""
        with self._connection() as connection:
            ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
        tree = json.loads(text)
        if tree["error"]:
            raise ValueError(f"DuckDB cannot parse a query of {self.name}: {tree['error_message']}")
        names = set(_tables(tree))
        return [name for name in self.keys if name in names]

    def _connection(self) -> duckdb.DuckDBPyConnection:
        return _connection(self.name)


def _tables(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        if tree.get("type") == "BASE_TABLE":
            yield tree["table_name"].lower()
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _tables(each)


def _connection(name: SuiteName) -> duckdb.DuckDBPyConnection:
    import_extension(name)
    connection = duckdb.connect()
    connection.load_extension(name)
    return connection


@cache
def _queries(name: SuiteName) -> Sequence[tuple[str, str]]:
    with _connection(name) as connection:
        found = connection.execute(f"SELECT query_nr, query FROM {name}_queries()").fetchall()
    return [(f"q{number}", text.rstrip().rstrip(";")) for number, text in found]


_TPCH = Suite(
    name=SuiteName.TPCH,
    generator="dbgen",
    keys={
        "customer": ("c_custkey",),
        "lineitem": ("l_orderkey", "l_linenumber"),
        "nation": ("n_nationkey",),
        "orders": ("o_orderkey",),
        "part": ("p_partkey",),
        "partsupp": ("ps_partkey", "ps_suppkey"),
        "region": ("r_regionkey",),
        "supplier": ("s_suppkey",),
    },
    documents=({"orders": "o_orderkey", "lineitem": "l_orderkey"},),
    updated=("customer", "part", "partsupp", "supplier"),
    checked=tuple(f"q{number}" for number in range(1, 23)),
)

_CHECKED_OF_TPCDS = (
    *(1, 2, 5, 6, 12, 14, 16, 17, 18, 20, 22, 27, 33, 35, 38, 40, 43, 45, 47, 51),
    *(53, 57, 59, 63, 67, 69, 70, 72, 75, 76, 77, 78, 80, 86, 87, 89, 94, 95, 97, 98),
)
"""Queries with windows, ROLLUP, set operations, subqueries, and common tables with several readers.

Most of them have results at the smallest scales. Not q36: at some steps it divides by zero, in a batch as well.
"""

_TPCDS = Suite(
    name=SuiteName.TPCDS,
    generator="dsdgen",
    keys={
        "call_center": ("cc_call_center_sk",),
        "catalog_page": ("cp_catalog_page_sk",),
        "catalog_returns": ("cr_item_sk", "cr_order_number"),
        "catalog_sales": ("cs_item_sk", "cs_order_number"),
        "customer": ("c_customer_sk",),
        "customer_address": ("ca_address_sk",),
        "customer_demographics": ("cd_demo_sk",),
        "date_dim": ("d_date_sk",),
        "household_demographics": ("hd_demo_sk",),
        "income_band": ("ib_income_band_sk",),
        "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
        "item": ("i_item_sk",),
        "promotion": ("p_promo_sk",),
        "reason": ("r_reason_sk",),
        "ship_mode": ("sm_ship_mode_sk",),
        "store": ("s_store_sk",),
        "store_returns": ("sr_item_sk", "sr_ticket_number"),
        "store_sales": ("ss_item_sk", "ss_ticket_number"),
        "time_dim": ("t_time_sk",),
        "warehouse": ("w_warehouse_sk",),
        "web_page": ("wp_web_page_sk",),
        "web_returns": ("wr_item_sk", "wr_order_number"),
        "web_sales": ("ws_item_sk", "ws_order_number"),
        "web_site": ("web_site_sk",),
    },
    documents=(
        {"store_sales": "ss_ticket_number", "store_returns": "sr_ticket_number"},
        {"catalog_sales": "cs_order_number", "catalog_returns": "cr_order_number"},
        {"web_sales": "ws_order_number", "web_returns": "wr_order_number"},
    ),
    updated=("customer", "customer_address", "inventory", "item"),
    checked=tuple(f"q{number}" for number in _CHECKED_OF_TPCDS),
)

SUITES: Mapping[SuiteName, Suite] = {each.name: each for each in (_TPCH, _TPCDS)}
