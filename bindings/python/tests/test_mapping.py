"""The generic tests for mappings of Python's standard library (`test.mapping_tests`).

`BasicTestMappingProtocol` applies: it takes keys and values from the class that uses it.
`TestMappingProtocol` does not: its keys are integers, and it wants `copy` and `fromkeys`.
"""

from __future__ import annotations

import shelve
import shutil
import tempfile
from typing import Any

import firndb
import pytest

mapping_tests = pytest.importorskip(
    "test.mapping_tests", reason="Python is installed without its package `test`"
)


class Stores(mapping_tests.BasicTestMappingProtocol):  # type: ignore[misc]
    """Makes stores in place of dictionaries."""

    options: dict[str, Any] = {}

    def _reference(self) -> dict[Any, Any]:
        return {b"1": b"2", b"key1": b"value1", b"key2": b""}

    def _empty_mapping(self) -> Any:
        path = tempfile.mkdtemp(prefix="firndb-mapping-")
        self.addCleanup(shutil.rmtree, path)
        store = firndb.LogStore(path, **self.options)
        self.addCleanup(store.close)
        return store


class TestLogStore(Stores):
    pass


class TestBufferedLogStore(Stores):
    options = {"access": "buffered", "background": False}


class TestDecodedLogStore(Stores):
    options = {"decode": True}

    def _reference(self) -> dict[Any, Any]:
        return {"1": "2", "key1": "\u20ac", "\u00e9": ""}


class TestShelf(Stores):
    """A shelf of the standard library keeps pickled objects in any mapping of bytes."""

    def _reference(self) -> dict[Any, Any]:
        return {"key1": "value1", "key2": 2, "key3": (1, 2, 3)}

    def _empty_mapping(self) -> Any:
        return shelve.Shelf(super()._empty_mapping())


del Stores
