"""Tables in key order: ranges, prefixes and sorted iteration."""

from __future__ import annotations

import os
from pathlib import Path

import firndb
import pytest

ACCESS = ["map", "buffered", "direct", "resident"]
COUNT = 5_000  # Several pages of an iteration.
ALL = [b"%05d" % n for n in range(COUNT)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ordered") / "t"
    pairs = [(f"{n * 7 % COUNT:05}", f"value {n}") for n in range(COUNT)]
    with firndb.build_table(pairs, path, order="key") as table:
        assert table.ordered and table.stats().order == "key"
    return path


def keys(items: object) -> list[bytes]:
    return [key for key, _ in items]  # type: ignore[attr-defined]


@pytest.mark.parametrize("access", ACCESS)
def test_ranges(path: Path, access: str) -> None:
    with firndb.Table(path, access=access) as table:
        assert keys(table.range()) == ALL
        assert keys(table.range(reverse=True)) == ALL[::-1]
        assert keys(table.range("00100", b"00105")) == ALL[100:105]
        assert keys(table.range("001005", bytearray(b"00105"))) == ALL[101:105]
        assert keys(table.range("00500", reverse=True)) == ALL[:499:-1]
        assert keys(table.range(end="00003", reverse=True)) == ALL[2::-1]
        assert keys(table.range("2", "1")) == keys(table.range("1", "1")) == []
        assert keys(table.range("6")) == keys(table.range(end="")) == []
        assert keys(table.prefix("0499")) == ALL[4990:]
        assert keys(table.prefix(b"00", reverse=True)) == ALL[999::-1]
        assert keys(table.prefix("")) == ALL and keys(table.prefix("x")) == []
        assert dict(table.range("00001", "00002")) == {b"00001": table["00001"]}


def test_iterations_are_sorted(path: Path) -> None:
    with firndb.Table(path) as table:
        assert list(table) == ALL == list(table.keys()) == keys(table.items())
        assert list(table.values()) == table.get_many(ALL)
        assert table.to_arrow().column("key").to_pylist() == ALL


def test_an_iteration_outlives_the_table(path: Path) -> None:
    table = firndb.Table(path, decode=True)
    records = table.range("01000", "04000")
    assert next(records) == ("01000", table["01000"])
    table.close()
    assert len(list(records)) == 2_999
    with pytest.raises(StopIteration):
        next(records)
    with pytest.raises(ValueError, match="closed"):
        table.range()


def test_long_values_come_in_smaller_pages(tmp_path: Path) -> None:
    values = {b"%d" % n: bytes([n]) * (3 << 20) for n in range(9)}
    with firndb.build_table(values, tmp_path / "t", order="key", compression="block") as table:
        assert dict(table.range()) == values
        assert keys(table.range(reverse=True)) == sorted(values, reverse=True)


def test_rows_and_options(tmp_path: Path) -> None:
    rows = [{"day": f"2026-01-{n:02}", "high": -n} for n in (30, 4, 17)]
    options = {"order": "key", "filter": 8, "compression": "record"}
    table = firndb.build_table(rows, tmp_path / "t", key="day", record=True, **options)
    assert list(table) == [b"2026-01-04", b"2026-01-17", b"2026-01-30"]
    assert [table.row(key) for key, _ in table.range("2026-01-1")] == [{"high": -17}, {"high": -30}]
    assert table.to_arrow().column("high").to_pylist() == [-4, -17, -30]


def test_a_table_is_built_of_an_ordered_store(tmp_path: Path) -> None:
    with firndb.LogStore(tmp_path / "s", ordered=True) as store:
        store.put_many((key, b"v" + key) for key in reversed(ALL))
        firndb.build_table(store, tmp_path / "t", order="key").close()
        with firndb.Table(tmp_path / "t") as table:
            assert list(table.items()) == list(store.items())
            firndb.build_table(table, tmp_path / "again", order="key").close()
    assert (tmp_path / "t").read_bytes() == (tmp_path / "again").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["again", "s", "t"]


def test_other_tables_have_no_ranges(tmp_path: Path) -> None:
    with firndb.build_table({"a": "b"}, tmp_path / "shard-00000.table") as table:
        assert not table.ordered and table.stats().order == "hash"
        with pytest.raises(firndb.InvalidArgumentError, match="in hash order"):
            table.range()
        with pytest.raises(firndb.InvalidArgumentError, match="in hash order"):
            table.prefix("a")
    firndb.build_table({"a": "b"}, tmp_path / "t", order="key").close()
    with firndb.ShardedTable([tmp_path / "t"]) as sharded:
        assert not sharded.ordered and sharded["a"] == b"b"
        with pytest.raises(firndb.InvalidArgumentError, match="sharded"):
            sharded.range()
        with pytest.raises(firndb.InvalidArgumentError, match="sharded"):
            sharded.prefix("a", reverse=True)


def test_wrong_arguments(path: Path, tmp_path: Path) -> None:
    with firndb.Table(path) as table:
        with pytest.raises(TypeError, match="bytes or str"):
            table.range(1)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            table.prefix(None)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            table.range("a", "b", True)  # type: ignore[misc]
    with pytest.raises(firndb.InvalidArgumentError, match="'hash' and 'key'"):
        firndb.build_table({"a": "b"}, tmp_path / "t", order="up")  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []
