"""SQL cells in a real kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flykka.notebook.kernel import CellError, Kernel, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

BEGIN = """
from flykka import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment("local[1]", slots_per_task_manager=4)
"""
TABLES = """%%flykka_sql
CREATE OR REPLACE TABLE bid (auction BIGINT, price DOUBLE) USING datagen
  OPTIONS (number_of_rows 100, fields.auction.minimum 0, fields.auction.maximum 2);
CREATE OR REPLACE TABLE bids (auction BIGINT) USING datagen OPTIONS (rows_per_second 100, fields.auction.maximum 2);
CREATE OR REPLACE TABLE out USING json OPTIONS (path 'out');
SHOW TABLES
"""


@pytest.fixture
def kernel(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel of the other tests, with their variables removed. Those tests have closed their environments."""
    kernel.run("%reset -f")
    yield kernel
    kernel.run("env.close()")


def test_a_cell_declares_displays_and_counts(kernel: Kernel) -> None:
    kernel.run("import flykka")  # The import registers the magic with IPython.
    with pytest.raises(CellError, match="there is no environment yet"):
        kernel.run("%%flykka_sql\nSHOW TABLES")
    kernel.run(BEGIN)

    cell = kernel.run(TABLES)
    counted = kernel.run("%%flykka_sql env\nSELECT auction, count(*) AS n FROM bid GROUP BY auction;\nSHOW VIEWS;")

    assert "bids\tdatagen" in cell.text
    table = kernel.updates[counted.display_ids[0]][-1].data
    assert table["text/plain"].splitlines()[0] == "auction\tn"
    assert len(table["text/plain"].splitlines()) == 5
    assert table["text/plain"].endswith("3 rows; finished")
    assert "<td" in table["text/html"]


def test_an_interrupt_ends_a_query_and_an_insert_continues(kernel: Kernel) -> None:
    kernel.run("import flykka")
    kernel.run(BEGIN)
    kernel.run(TABLES)
    cell = kernel.start("%%flykka_sql\nSELECT auction FROM bids")
    while not (cell.display_ids and len(kernel.updates[cell.display_ids[0]]) > 1):
        kernel.listen()
    kernel.interrupt()
    kernel.wait(cell)

    assert cell.error is None
    assert kernel.updates[cell.display_ids[0]][-1].data["text/plain"].endswith("rows; ended by an interrupt")
    started = kernel.run("%%flykka_sql\nINSERT INTO out SELECT auction FROM bid")
    assert "insert-into_out" in started.text
    with pytest.raises(CellError, match="line 2, column 8"):
        kernel.run("%%flykka_sql\nSHOW TABLES;\nSELECT nope FROM bid")
    wait_until(lambda: "True" in kernel.run("import glob; print(bool(glob.glob('out/*.json')))").printed)
    assert kernel.run("print(env.spark.read.json('out').count())").printed.strip() == "100"
