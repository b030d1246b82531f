"""The reasons in error messages of refused queries."""

from __future__ import annotations

import pytest

from flykka.errors import SqlError
from tests.flykka.api.table.queries import Queries

pytestmark = pytest.mark.spark


def test_changes_of_whole_rows_have_no_event_time(queries: Queries) -> None:
    queries.create_temporary_view("priced", queries.sql("SELECT price, at FROM auction"))

    with pytest.raises(SqlError, match="its rows are changes of whole rows, and changing rows have no event time"):
        queries.sql("SELECT b.price FROM bid b JOIN priced FOR SYSTEM_TIME AS OF b.at AS p ON b.price = p.price")
