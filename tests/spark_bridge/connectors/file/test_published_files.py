"""Tests that the publishers of files in a folder are recognised by the file names alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flykka.actors.checkpoint_storage.file_names import file_name_part
from flykka.spark_bridge.connectors.file.sink import published_files, published_prefix
from flykka.spark_bridge.program.sink import PublishedFiles

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def name_of(job: str, uid: str = "output", checkpoint: int = 3) -> str:
    return f"{published_prefix(job)}{file_name_part(uid)}-0-{checkpoint}-0-{UUID}.snappy.parquet"


def test_files_of_a_folder_are_grouped_by_their_publisher() -> None:
    own = (f"/out/{name_of('errors per hour')}", f"/out/day=1/{name_of('errors per hour', 'other sink', 4)}")
    others = (f"/out/{name_of('orders')}", f"/out/{name_of('orders', checkpoint=9)}", f"/out/{name_of('clicks')}")
    foreign = (
        "/out/rows.csv",
        f"/out/part-00000-{UUID}-c000.snappy.parquet",
        f"/out/part-output-1a2b3c4d-0-3-0-{UUID}.csv",
    )

    published = published_files("/out", (*own, *others, *foreign), "errors per hour")

    assert published == PublishedFiles(
        folder="/out", own=own, by_others=(("clicks", 1), ("orders", 2)), foreign=len(foreign)
    )


@pytest.mark.parametrize(("one", "other"), [("a b", "a_b"), ("流れ", "川"), ("a", "a-0"), ("a", "a-output")])
def test_jobs_with_similar_names_own_separate_files(one: str, other: str) -> None:
    assert published_files("/out", [name_of(one)], other).own == ()


@given(job=st.text(max_size=90), uid=st.text(min_size=1, max_size=90))
def test_a_job_recognises_its_files_by_names_of_limited_length(job: str, uid: str) -> None:
    name = name_of(job, uid)

    assert published_files("/out", [name], job).own == (name,)
    assert len(f".{name}.crc".encode()) <= 255
