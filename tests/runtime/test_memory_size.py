"""Parsing and printing of memory sizes."""

from __future__ import annotations

import pytest

from flykka.runtime.memory_size import MemorySize, positive_size_bytes


@pytest.mark.parametrize(
    ("written", "size"),
    [("128MB", 128 << 20), (" 1 gb ", 1 << 30), ("64k", 64 << 10), ("7", 7), ("2b", 2), ("1TB", 1 << 40), (5, 5)],
)
def test_a_size_is_parsed_to_the_byte(written: MemorySize, size: int) -> None:
    assert positive_size_bytes(written) == size


@pytest.mark.parametrize("written", ["", "MB", "1.5MB", "-1", "0", 0, -5, "1 parsec", True, None, 1.5])
def test_an_invalid_size_is_refused_with_its_value(written: object) -> None:
    with pytest.raises(ValueError, match="the file size") as refused:
        positive_size_bytes(written, "the file size")  # type: ignore[arg-type]

    assert repr(written) in str(refused.value)
