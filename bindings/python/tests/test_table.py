"""Tables: reading, closing, pickling, threads."""

import datetime as dt
import decimal
import multiprocessing
import pickle
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import firndb
import pyarrow as pa
import pytest

ACCESS = ["map", "buffered", "direct", "resident"]
RECORDS = {f"key {n}": f"value {n}" for n in range(3000)}


@pytest.fixture
def path(tmp_path) -> Path:
    firndb.build_table(RECORDS, tmp_path / "t").close()
    return tmp_path / "t"


@pytest.mark.parametrize("access", ACCESS)
def test_a_table_is_a_mapping(path, access) -> None:
    with firndb.Table(path, access=access) as table:
        assert isinstance(table, Mapping) and table.access == access
        assert len(table) == 3000 and bool(table)
        assert table["key 7"] == table[b"key 7"] == table[bytearray(b"key 7")] == b"value 7"
        assert table.get("no") is None and table.get("no", 7) == 7
        assert "key 7" in table and "no" not in table and b"key 8" in table
        with pytest.raises(KeyError) as caught:
            table["no"]
        assert caught.value.args == ("no",)
        expected = {key.encode(): value.encode() for key, value in RECORDS.items()}
        assert dict(table) == dict(table.items()) == expected
        assert list(table) == list(table.keys())
        assert list(zip(table, table.values(), strict=True)) == list(table.items())
        assert set(table.values()) == set(expected.values())
        assert table == expected and table != {}
        assert table.keys() & {b"key 1", b"x"} == {b"key 1"}
        assert (b"key 1", b"value 1") in table.items() and b"value 1" in table.values()
        assert table.get_many(["key 1", b"no", "key 2"]) == [b"value 1", None, b"value 2"]
        assert table.get_many(("no",), b"-") == [b"-"]
        assert table.get_many([]) == [] and table.get_many(iter(["key 1"])) == [b"value 1"]
        assert table.verify().records == 3000
        for wrong in (7, None, ["a"]):
            with pytest.raises(TypeError, match="bytes or str"):
                table[wrong]
            with pytest.raises(TypeError):
                table.get_many([wrong])
        with pytest.raises(TypeError):
            table.get_many("key 1")
        with pytest.raises(TypeError):
            table["key 1"] = b"x"  # type: ignore[index]


def test_decode_returns_text(tmp_path) -> None:
    firndb.build_table({"a": "\u00e9", b"\xff": b"\xff"}, tmp_path / "t").close()
    table = firndb.Table(tmp_path / "t", decode=True)
    assert table["a"] == "\u00e9" and table.get_many(["a", "b"], arrow=True).to_pylist() == [
        "\u00e9",
        None,
    ]
    with pytest.raises(UnicodeDecodeError):
        table[b"\xff"]
    with pytest.raises(UnicodeDecodeError):
        list(table)
    with pytest.raises(UnicodeDecodeError):
        table.get_many(["a", b"\xff"], arrow=True)


def test_large_values_and_empty_keys(tmp_path) -> None:
    records = {b"": b"", b"big": b"x" * 5_000_000, b"k" * 65_536: b"1"}
    with firndb.build_table(records, tmp_path / "t") as table:
        assert dict(table) == records
        assert table.get_many(records) == list(records.values())


def test_descriptions(path) -> None:
    table = firndb.Table(path)
    assert table.path == str(path) and not table.decode and not table.closed
    assert "3,000 records" in repr(table) and str(path) in repr(table)
    assert "<table>" in table._repr_html_() and "3,000" in table._repr_html_()
    stats = table.stats()
    assert (stats.records, stats.compression, stats.level, stats.filter) == (3000, "none", None, 0)
    assert stats.file_bytes == path.stat().st_size
    assert stats.as_dict()["records"] == 3000 and "records=3000" in repr(stats)
    assert "<table>" in stats._repr_html_()
    assert (table.metadata, table.value_schema, table.columns) == (b"", "", None)
    with pytest.raises(firndb.InvalidArgumentError, match="not records of columns"):
        table.row("key 1")
    with pytest.raises(firndb.InvalidArgumentError, match="not records of columns"):
        table.rows(["key 1"])
    table.close()
    assert "closed" in repr(table) and "closed" in table._repr_html_()


def test_a_closed_table_raises(path) -> None:
    table = firndb.Table(path)
    items = iter(table.items())
    next(items)
    table.close()
    table.close()
    assert table.closed
    calls = [
        lambda: table["a"],
        lambda: table.get("a"),
        lambda: "a" in table,
        lambda: len(table),
        lambda: iter(table),
        lambda: table.get_many(["a"]),
        lambda: table.metadata,
        lambda: table.columns,
        lambda: table.row("a"),
        lambda: table.stats(),
        lambda: table.verify(),
        lambda: table.__arrow_c_stream__(),
        lambda: pickle.dumps(table),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the table is closed"):
            call()
    # What had begun goes on.
    assert len(list(items)) == 2999


def test_wrong_files(tmp_path, path) -> None:
    with pytest.raises(firndb.NotFoundError) as caught:
        firndb.Table(tmp_path / "absent")
    assert caught.value.path is not None and "absent" in caught.value.path
    (tmp_path / "text").write_text("hello" * 1000)
    with pytest.raises(firndb.FirnError):
        firndb.Table(tmp_path / "text")
    (tmp_path / "empty").write_text("")
    with pytest.raises(firndb.FirnError):
        firndb.Table(tmp_path / "empty")
    with pytest.raises(ValueError, match="access is 'mmap'"):
        firndb.Table(path, access="mmap")
    with pytest.raises(TypeError):
        firndb.Table(7)
    with pytest.raises(firndb.FirnError):
        firndb.Table(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[5000] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    for access in ["map", "buffered", "direct"]:
        with firndb.Table(tmp_path / "damaged", access=access) as table:
            with pytest.raises(firndb.CorruptError) as error:
                list(table)
            assert error.value.path is not None and error.value.offset is not None
            with pytest.raises(firndb.CorruptError):
                table.verify()
            with pytest.raises(firndb.CorruptError):
                table.get_many(RECORDS)
            with pytest.raises(Exception, match="checksum|damaged|corrupt"):
                pa.table(table)


# ---------------------------------------------------------------- rows


EVERYTHING = pa.table(
    {
        "id": pa.array([1, 2]),
        "i8": pa.array([-1, None], pa.int8()),
        "u32": pa.array([2**32 - 1, None], pa.uint32()),
        "f32": pa.array([0.5, None], pa.float32()),
        "f64": pa.array([float("inf"), None]),
        "text": pa.array(["\u00e9", None], pa.large_string()),
        "blob": pa.array([b"\xff", None]),
        "flag": pa.array([True, None]),
        "day": pa.array([dt.date(1, 1, 1), None]),
        "ms": pa.array([dt.datetime(9999, 12, 31, 23, 59, 59, 999000), None], pa.timestamp("ms")),
        "us": pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 1), None], pa.timestamp("us", "UTC")),
        "ns": pa.array([1_000, None], pa.timestamp("ns")),
        "time": pa.array([dt.time(23, 59, 59, 999999), None], pa.time64("us")),
        "money": pa.array([decimal.Decimal("-12.30"), None], pa.decimal128(9, 2)),
        "wide": pa.array([decimal.Decimal(10**60), None], pa.decimal256(70, 0)),
        "list": pa.array([[1, None], None]),
        "struct": pa.array([{"x": 1, "y": ["a"]}, None]),
        "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        "dict": pa.array(["x", None]).dictionary_encode(),
    }
)


def test_rows_have_python_types(tmp_path) -> None:
    with firndb.build_table(EVERYTHING, tmp_path / "t", key="id") as table:
        row = table.row("1")
        assert row == {
            "i8": -1,
            "u32": 2**32 - 1,
            "f32": 0.5,
            "f64": float("inf"),
            "text": "\u00e9",
            "blob": b"\xff",
            "flag": True,
            "day": dt.date(1, 1, 1),
            "ms": dt.datetime(9999, 12, 31, 23, 59, 59, 999000),
            "us": dt.datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=dt.UTC),
            "ns": dt.datetime(1970, 1, 1, 0, 0, 0, 1),
            "time": dt.time(23, 59, 59, 999999),
            "money": decimal.Decimal("-12.30"),
            "wide": decimal.Decimal(10**60),
            "list": [1, None],
            "struct": {"x": 1, "y": ["a"]},
            "map": {"a": 1},
            "dict": "x",
        }
        assert type(row["flag"]) is bool and str(row["money"]) == "-12.30"
        assert table.row("2") == dict.fromkeys(row)
        assert table.row("3") is None
        assert table.rows(["2", "3", b"1"]) == [dict.fromkeys(row), None, row]
        assert table.columns == list(row)
        firn = pa.table(table).sort_by("key").drop(["key"])
        assert firn.num_rows == 2 and firn.to_pylist()[0] == row | {"map": [("a", 1)]}


def test_dates_beyond_those_of_python_are_numbers(tmp_path) -> None:
    data = pa.table(
        {
            "id": ["a"],
            "day": pa.array([10_000_000], pa.date32()),
            "when": pa.array([2**62], pa.timestamp("us")),
            "s": pa.array([2**40], pa.timestamp("s")),
        }
    )
    with firndb.build_table(data.select(["id", "day", "when"]), tmp_path / "t", key="id") as table:
        assert table.row("a") == {"day": 10_000_000, "when": 2**62}


def test_json_columns_are_objects(tmp_path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "tags": ["x", {"y": null}], "n": 1}\n{"id": 2}\n')
    with firndb.build_table(tmp_path / "a.jsonl", tmp_path / "t", key="id") as table:
        assert table.rows(["1", "2"]) == [
            {"tags": ["x", {"y": None}], "n": 1},
            {"tags": None, "n": None},
        ]


def test_many_rows_as_arrow_data(tmp_path) -> None:
    data = pa.table({"id": [1, 2, 3], "n": [10, 20, 30], "s": ["a", "b", "c"]})
    with firndb.build_table(data, tmp_path / "t", key="id") as table:
        found = table.get_many(["3", "9", "1"], arrow=True)
        assert isinstance(found, firndb.Columns)
        assert len(found) == 3 and found.column_names == ["n", "s"]
        expected = {"n": [30, None, 10], "s": ["c", None, "a"]}
        assert pa.table(found).to_pydict() == expected == found.to_arrow().to_pydict()
        assert found.to_polars().rows() == [(30, "c"), (None, None), (10, "a")]
        assert found.to_pandas()["n"].tolist()[::2] == [30, 10]
        assert pa.schema(found).names == ["n", "s"] and "3 rows: n, s" in repr(found)
        assert len(pa.table(table.get_many([], arrow=True))) == 0
        keys = pa.array(["1", None, "2"])
        assert pa.table(table.get_many(keys, arrow=True))["n"].to_pylist() == [10, None, 20]


# ---------------------------------------------------------------- sharded tables


@pytest.mark.parametrize("access", ACCESS)
def test_sharded_tables(tmp_path, access) -> None:
    for shard in range(3):
        part = {k: v for k, v in RECORDS.items() if firndb.shard_of(k, 3) == shard}
        firndb.build_table(part, tmp_path / f"shard-{shard:05}.table").close()
    paths = sorted(tmp_path.iterdir())
    for location in (tmp_path, paths, [str(path) for path in paths]):
        with firndb.ShardedTable(location, access=access, decode=True) as table:
            assert dict(table) == RECORDS and len(table) == 3000 and table.shards == 3
            assert table["key 7"] == "value 7" and "no" not in table
            assert table.get_many(["key 1", "no"]) == ["value 1", None]
            assert table.stats().shards == 3 and table.stats().records == 3000
            assert table.verify().files == 3
            assert pa.table(table).num_rows == 3000
            copy = pickle.loads(pickle.dumps(table))
            assert copy["key 5"] == "value 5" and copy.access == access
            assert "3,000 records" in repr(table) and "<table>" in table._repr_html_()
    with firndb.ShardedTable(paths) as table:
        merged = firndb.build_table(table, tmp_path.parent / f"merged-{access}")
        assert len(merged) == 3000
    with pytest.raises(firndb.InvalidArgumentError):
        firndb.ShardedTable([])
    with pytest.raises(firndb.CorruptError):
        firndb.ShardedTable(paths[::-1]).verify()
    with pytest.raises(firndb.FirnError):
        firndb.ShardedTable(tmp_path / "absent")
    with pytest.raises(TypeError):
        firndb.ShardedTable(7)
    with pytest.raises(ValueError, match="at least one"):
        firndb.shard_of("a", 0)


# ---------------------------------------------------------------- threads and processes


def _look_up(table: firndb.Table) -> list[bytes | None]:
    return [table["key 1"], *table.get_many(["key 2", "no"])]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("method", "access"),
    [("spawn", "map"), ("fork", "map"), ("fork", "direct"), ("forkserver", "resident")],
)
def test_tables_are_passed_to_processes(path, method, access) -> None:
    with firndb.Table(path, access=access) as table:
        assert _look_up(table) == [b"value 1", b"value 2", None]
        with multiprocessing.get_context(method).Pool(2) as pool:
            results = pool.map(_look_up, [table] * 4)
        assert results == [[b"value 1", b"value 2", None]] * 4


def test_a_copy_keeps_its_options_and_has_an_absolute_path(path, monkeypatch) -> None:
    monkeypatch.chdir(path.parent)
    table = firndb.Table(path.name, access="resident", decode=True)
    monkeypatch.chdir("/")
    assert table.path == path.name
    state = pickle.dumps(firndb.Table(path, access="buffered", decode=True))
    copy = pickle.loads(state)
    assert (copy.access, copy.decode, copy["key 1"]) == ("buffered", True, "value 1")


@pytest.mark.parametrize("access", ["map", "buffered"])
def test_closing_during_lookups_is_safe(path, access) -> None:
    handles = [firndb.Table(path, access=access)]
    stop = threading.Event()
    failures: list[BaseException] = []

    def look_up() -> None:
        while not stop.is_set():
            try:
                table = handles[0]
                assert table.get("key 1") == b"value 1"
                assert table.get_many(["key 1", "no"]) == [b"value 1", None]
                assert len(next(iter(table.items()))) == 2
            except ValueError as error:
                if "closed" not in str(error):
                    failures.append(error)
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=look_up) for _ in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    for _ in range(300):
        old, handles[0] = handles[0], firndb.Table(path, access=access)
        old.close()
    stop.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert failures == []
