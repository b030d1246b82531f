"""Hashes of code are equal in recording and replay, whichever module is hashed first."""

from __future__ import annotations

import flykka.runtime.trace.file.reader
from flykka.runtime.trace.file.versions import module_hashes

PACKAGE = flykka.runtime.trace.file.__name__
MODULE = flykka.runtime.trace.file.reader.__name__


def test_the_hash_of_a_package_is_equal_from_each_of_its_modules() -> None:
    assert module_hashes(PACKAGE)[PACKAGE] == module_hashes(MODULE)[PACKAGE]


def test_a_module_has_a_hash_in_addition_to_its_packages() -> None:
    hashes = module_hashes(MODULE)

    assert hashes.keys() == {MODULE, PACKAGE}
    assert hashes[MODULE] != hashes[PACKAGE]
