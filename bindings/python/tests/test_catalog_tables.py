"""Tables in catalogs: every kind, staged shards, and queries during switches."""

import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import firndb
import pytest

ROWS = {f"key {n}": str(n) for n in range(1000)}


@pytest.fixture
def catalog(tmp_path: Path) -> firndb.Catalog:
    return firndb.Catalog(tmp_path / "catalog", create=True)


def shards(directory: Path, count: int = 3) -> list[Path]:
    directory.mkdir()
    paths = [directory / f"shard-{shard:05}.table" for shard in range(count)]
    for shard, path in enumerate(paths):
        rows = {key: value for key, value in ROWS.items() if firndb.shard_of(key, count) == shard}
        firndb.build_table(rows, path).close()
    return paths


def open_as(reader: firndb.CatalogReader) -> dict[str, Callable[[], object]]:
    current = reader.current
    return {
        "table": current.table,
        "sharded table": current.sharded_table,
        "approximate table": current.approximate_table,
    }


@pytest.mark.parametrize("access", ["map", "resident", "buffered", "direct"])
def test_tables_of_every_kind(catalog, tmp_path, access) -> None:
    firndb.build_table(ROWS, tmp_path / "one.table").close()
    approximate = {key: value.zfill(4) for key, value in ROWS.items()}
    firndb.build_approximate_table(approximate, tmp_path / "some.table", value_width=4).close()
    shards(tmp_path / "shards")
    sources = {
        "table": tmp_path / "one.table",
        "sharded table": tmp_path / "shards",
        "approximate table": tmp_path / "some.table",
    }
    for kind, path in sources.items():
        name = kind.replace(" ", "-")
        assert catalog.publish(name, path).version.kind == kind
        with catalog.reader(name, tmp_path / f"cache-{name}", access=access) as reader:
            assert reader.current.kind == kind
            for other, opened in open_as(reader).items():
                if other != kind:
                    with pytest.raises(firndb.InvalidArgumentError, match=f"no {other}: its kind"):
                        opened()
            table = open_as(reader)[kind]()
            assert table.access == access and len(table) == 1000
            assert table["key 7"] == (b"0007" if kind == "approximate table" else b"7")
            assert type(table).__name__ in repr(table)
        assert table.get("key 8"), "it stays open after its reader was closed"
        table.close()


def test_a_table_is_of_its_generation(catalog, tmp_path) -> None:
    firndb.build_table({"a": "1"}, tmp_path / "1.table").close()
    firndb.build_table({"a": "2"}, tmp_path / "2.table").close()
    catalog.publish("t", tmp_path / "1.table")
    with catalog.reader("t", tmp_path / "cache") as reader:
        old = reader.current
        with old.table(decode=True) as table:
            assert dict(table) == {"a": "1"}
        assert dict(old.table()) == {b"a": b"1"}, "closing a table does not close its generation"
        copy = pickle.loads(pickle.dumps(old.table()))
        assert copy["a"] == b"1"
        catalog.publish("t", tmp_path / "2.table")
        table = old.table()
        assert reader.refresh()
        assert (table["a"], old.table()["a"], reader.current.table()["a"]) == (b"1", b"1", b"2")
        assert table.to_arrow().num_rows == 1


def test_shards_are_staged_and_published_together(catalog, tmp_path) -> None:
    paths = shards(tmp_path / "shards")
    staged = [catalog.stage("words", path) for path in paths]
    assert [one.file_name for one in staged] == [path.name for path in paths]
    assert sum(one.records for one in staged) == 1000 and catalog.names() == ["words"]
    lines = [str(one) for one in staged]
    with pytest.raises(firndb.InvalidArgumentError):
        catalog.publish_staged("words", lines[::-1])
    with pytest.raises(firndb.InvalidArgumentError):
        catalog.publish_staged("other", lines)
    with pytest.raises(firndb.InvalidArgumentError):
        catalog.publish_staged("words", [])
    with pytest.raises(firndb.CorruptError):
        catalog.publish_staged("words", [lines[0][:-3]])
    with pytest.raises(TypeError, match="not a single one"):
        catalog.publish_staged("words", lines[0])
    version = catalog.publish_staged("words", staged, labels={"a": "b"}, verify=True).version
    assert (version.kind, version.labels) == ("sharded table", {"a": "b"})
    with catalog.reader("words", tmp_path / "cache") as reader:
        assert reader.current.sharded_table().get_many(["key 1", "none"]) == [b"1", None]
    assert catalog.publish_staged("words", lines).sent_files == 0
    assert catalog.clean("words", grace=0).staged_files == 3


def test_gets_go_on_while_versions_are_swapped(catalog, tmp_path) -> None:
    """Each version has one value for all keys, so a get of a mixed version is noticed."""
    keys = [f"key {n}" for n in range(50)]

    def publish(number: int) -> None:
        path = tmp_path / f"{number}.table"
        firndb.build_table(dict.fromkeys(keys, str(number)), path).close()
        assert catalog.publish("t", path).version.number == number
        os.remove(path)

    publish(1)
    failures: list[BaseException] = []
    gets = 0
    is_done = threading.Event()
    with catalog.reader("t", tmp_path / "cache") as reader, reader.watch(0.002):

        def get() -> None:
            nonlocal gets
            try:
                while not is_done.is_set():
                    generation = reader.current
                    table = generation.table()
                    assert set(table.get_many(keys)) == {str(generation.number).encode()}
                    assert table["key 7"] == str(generation.number).encode()
                    gets += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=get) for _ in range(4)]
        for thread in threads:
            thread.start()
        for number in range(2, 30):
            publish(number)
        while reader.current.number < 29 and not failures:
            reader.refresh()
        is_done.set()
        for thread in threads:
            thread.join()
        assert not failures and gets > 100 and reader.stats().failures == 0
