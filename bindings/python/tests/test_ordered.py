"""Ordered stores: ranges, prefixes and sorted iteration."""

from __future__ import annotations

import asyncio
from pathlib import Path

import firndb
import firndb.aio
import pytest


@pytest.fixture
def store(tmp_path: Path) -> firndb.LogStore:
    store = firndb.LogStore(tmp_path / "s", ordered=True)
    store.put_many((f"{n * 7 % 300:03}", str(n)) for n in range(300))
    return store


def keys(items: object) -> list[bytes]:
    return [key for key, _ in items]  # type: ignore[attr-defined]


ALL = [b"%03d" % n for n in range(300)]


def test_ranges(store: firndb.LogStore) -> None:
    assert store.ordered
    assert keys(store.range()) == ALL
    assert keys(store.range("100", b"105")) == ALL[100:105]
    assert keys(store.range(end="003", reverse=True)) == ALL[2::-1]
    assert keys(store.range("2", "1")) == []
    assert keys(store.prefix("29")) == ALL[290:]
    assert keys(store.prefix(b"", reverse=True)) == ALL[::-1]
    assert dict(store.range("001", "002")) == {b"001": store["001"]}


def test_iterations_are_sorted(store: firndb.LogStore) -> None:
    assert list(store) == ALL == list(store.keys())
    assert keys(store.items()) == ALL
    assert list(store.values()) == [store[key] for key in ALL]


def test_an_iteration_shows_its_beginning(store: firndb.LogStore) -> None:
    with store.snapshot() as snapshot:
        records = store.range("1")
        for key in ALL[50:200]:
            del store[key]
        store["0005"] = "new"
        assert keys(records) == ALL[100:]
        assert keys(store.prefix("000")) == [b"000", b"0005"]
        assert list(snapshot) == ALL
        assert keys(snapshot.range("1", "2", reverse=True)) == ALL[199:99:-1]
        assert keys(snapshot.prefix("00")) == ALL[:10]
    assert list(store) == [b"000", b"0005", *ALL[1:50], *ALL[200:]]


def test_the_kind_stays(store: firndb.LogStore, tmp_path: Path) -> None:
    store.close()
    with firndb.LogStore(tmp_path / "s") as again:
        assert again.ordered and list(again) == ALL
    with firndb.LogStore(tmp_path / "s", "r", decode=True) as reader:
        assert next(reader.range("2")) == ("200", reader["200"])
    with firndb.LogStore(tmp_path / "u") as other:
        assert not other.ordered
        with pytest.raises(firndb.InvalidArgumentError, match="ordered"):
            other.range()
        with pytest.raises(firndb.InvalidArgumentError, match="ordered"):
            other.prefix("a")
    with pytest.raises(firndb.InvalidArgumentError, match="ordered"):
        firndb.LogStore(tmp_path / "u", ordered=True)


def test_wrong_arguments(store: firndb.LogStore) -> None:
    with pytest.raises(TypeError, match="bytes or str"):
        store.range(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        store.prefix(None)  # type: ignore[arg-type]


def test_asyncio_has_ranges(store: firndb.LogStore, tmp_path: Path) -> None:
    store.close()

    async def read() -> None:
        async with firndb.aio.open_log(tmp_path / "s", "r") as store:
            assert [key async for key in store] == ALL
            assert [key async for key, _ in store.range("1", "2")] == ALL[100:200]
            assert [key async for key, _ in store.range(end="002", reverse=True)] == ALL[1::-1]
            async with await store.snapshot() as snapshot:
                assert [key async for key, _ in snapshot.prefix("29")] == ALL[290:]
                last = [key async for key, _ in snapshot.prefix("29", reverse=True)]
                assert last == ALL[:289:-1]
        async with firndb.aio.open_log(tmp_path / "new", ordered=True) as new:
            await new.put_many({"b": "2", "a": "1"})
            assert [item async for item in new.prefix("")] == [(b"a", b"1"), (b"b", b"2")]

    asyncio.run(read())
