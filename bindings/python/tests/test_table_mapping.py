"""The standard library's tests of mappings, as far as they apply to mappings that never change."""

import tempfile
from pathlib import Path
from typing import Any

import firndb
import pytest

mapping_tests = pytest.importorskip("test.mapping_tests", reason="Python has no package `test`")


class TestTable(mapping_tests.BasicTestMappingProtocol):  # type: ignore[misc, name-defined]
    """A table of text. The tests of writing do not apply."""

    test_write = test_update = test_fromkeys = test_pop = test_popitem = test_setdefault = None
    test_copy = test_clear = test_constructor = None

    folder: tempfile.TemporaryDirectory[str]

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tables = 0

    def type2test(self) -> firndb.Table:
        return self._full_mapping({})

    def _reference(self) -> dict[Any, Any]:
        return {"1": "2", "key1": "value1", "key2": "\u00e9"}

    def _empty_mapping(self) -> firndb.Table:
        return self._full_mapping({})

    def _full_mapping(self, data: dict[Any, Any]) -> firndb.Table:
        self.tables += 1
        path = Path(self.folder.name) / str(self.tables)
        firndb.build_table(data, path).close()
        return firndb.Table(path, decode=True)
