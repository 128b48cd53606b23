"""Collections of files, of Arrow data and of dictionaries."""

import datetime as dt
import decimal
import gzip
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import firndb
import numpy
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

CSV = (
    "id,city,price,seen,tags\n"
    "1,Oslo,12.5,2024-05-01,new|sea\n"
    "2,Bergen,NA,2024-05-02T08:30:00Z,\n"
    "3,Oslo,7.25,2024-05-03,sea\n"
)


def day(number: int, hour: int = 0, minute: int = 0) -> dt.datetime:
    return dt.datetime(2024, 5, number, hour, minute, tzinfo=dt.UTC)


def rows_of(collection: firndb.Collection) -> list[dict[str, Any]]:
    return collection.search(order_by="id").to_dicts()


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(CSV.replace("\n", "0\n", 0).encode()))
    built = firndb.build_collection(tmp_path / "a.csv", path=tmp_path / "one")
    assert built.schema["price"] == firndb.Field("price", "f64", nullable=True)
    assert rows_of(built)[1] == {
        "id": 2,
        "city": "Bergen",
        "price": None,
        "seen": day(2, 8, 30),
        "tags": "" or None,
    }
    schema = firndb.Schema({"id": "i64", "tags": "string multi"})
    both = firndb.build_collection(
        [tmp_path / "a.csv", str(tmp_path / "b.csv.gz")], schema, tmp_path / "two", payload="row"
    )
    assert len(both) == 6 and both.schema == schema
    hits = both.search("id = 1", payload=True)
    assert [row["tags"] for row in hits] == [["new", "sea"]] * 2
    assert json.loads(hits.payloads[0])["city"] == "Oslo"


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    rows = [{"id": n, "city": f"c{n % 3}", "price": n / 2} for n in range(50)]
    table = arrow_table = pyarrow.Table.from_pylist(rows)
    pyarrow.parquet.write_table(arrow_table, tmp_path / "x.parquet")
    with pyarrow.ipc.new_file(tmp_path / "x.arrow", table.schema) as file:
        file.write_table(table)
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    polars.DataFrame(rows).write_csv(tmp_path / "x.csv")
    files = ["parquet", "arrow", "jsonl", "csv"]
    sources: dict[str, Any] = {name: tmp_path / f"x.{name}" for name in files} | {
        "rows": rows,
        "generator": (row for row in rows),
        "pyarrow": table,
        "reader": pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(7)),
        "batch": table.to_batches()[0],
        "polars": polars.DataFrame(rows),
        "pandas": pandas.DataFrame(rows),
        "duckdb": duckdb.sql("select * from arrow_table"),
    }
    for name, source in sources.items():
        built = firndb.build_collection(source, path=tmp_path / "built" / name, order_by="-id")
        assert rows_of(built) == rows, name
        assert built.schema.order_by == "id desc"
    copied = firndb.build_collection(built.search(), path=tmp_path / "built" / "hits")
    assert rows_of(copied) == rows


def test_dictionaries_keep_their_types(tmp_path: Path) -> None:
    class Text(str):
        pass

    row = {
        "id": 1,
        "big": 2**64 - 1,
        "float": 1,
        "text": Text("2024-05-01"),
        "bytes": b"\x00\xff",
        "bool": True,
        "when": dt.datetime(2024, 5, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "date": dt.date(2024, 5, 2),
        "set": {"b", "a"},
        "outer": {"inner": 5, "deep": {"er": "x"}},
        "nan": float("nan"),
        "none": None,
        "numpy": numpy.int32(7),
        "array": numpy.array([3, 1, 2]),
        "stamp": pandas.Timestamp("2024-05-03", tz="UTC"),
    }
    second = {"id": 2, "big": 0, "float": 0.5, "nan": 1.5}
    built = firndb.build_collection([row, second], path=tmp_path / "x")
    types = {name: field.spec for name, field in built.schema.items()}
    assert types["big"] == "u64 full" and types["float"] == "f64 full"
    assert types["text"] == "string full nullable" and types["when"] == "timestamp full nullable"
    assert types["set"] == "string filterable stored multi"
    assert types["none"] == "string full nullable"
    assert rows_of(built)[0] == {
        "id": 1,
        "big": 2**64 - 1,
        "float": 1.0,
        "text": "2024-05-01",
        "bytes": b"\x00\xff",
        "bool": True,
        "when": day(1),
        "date": day(2),
        "set": ["a", "b"],
        "outer.inner": 5,
        "outer.deep.er": "x",
        "nan": None,
        "none": None,
        "numpy": 7,
        "array": [1, 2, 3],
        "stamp": day(3),
    }


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ({"id": "x"}, firndb.InvalidArgumentError, "rows[1]: field `id`: a value of type i64"),
        ({"id": 1.5}, firndb.InvalidArgumentError, "rows[1]: field `id`"),
        ({"id": 2**63}, firndb.InvalidArgumentError, "rows[1]: field `id`"),
        ({"id": 2**64}, ValueError, "rows[1]: field `id`: an integer has more than 64 bits"),
        ({"id": [1, 2]}, firndb.InvalidArgumentError, "rows[1]: field `id` has two values"),
        ({"id": None}, firndb.InvalidArgumentError, "rows[1]: field `id` is missing"),
        ({}, firndb.InvalidArgumentError, "rows[1]: field `id` is missing"),
        ({"id": decimal.Decimal(1)}, TypeError, "rows[1]: field `id`: a value is a bool, int"),
        ({"id": 1, "t": dt.datetime(2024, 5, 1)}, ValueError, "rows[1]: field `t`: a datetime"),
        ({"id": 1, "t": True}, firndb.InvalidArgumentError, "rows[1]: field `t`"),
        ({1: 1}, TypeError, "rows[1]: the keys of a row are str"),
        ((1, 2), TypeError, "rows[1]: a row is a dict, not tuple"),
        ("text", TypeError, "rows[1]: a row is a dict, not str"),
        (None, TypeError, "rows[1]: a row is a dict, not NoneType"),
    ],
)
def test_rows_that_do_not_fit(
    row: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    schema = {"id": "i64", "t": "timestamp nullable"}
    with pytest.raises(error) as caught:
        firndb.build_collection([{"id": 1}, row], schema, tmp_path / "x")
    assert message in str(caught.value)
    assert not (tmp_path / "x").exists()
    with pytest.warns(firndb.FirnWarning, match="skipped 1 of 3 rows: rows.1.") as warned:
        built = firndb.build_collection(
            iter([{"id": 1}, row, {"id": 2}]), schema, tmp_path / "x", on_error="skip"
        )
    assert message.removeprefix("rows[1]: ") in str(warned[0].message)
    assert [row["id"] for row in rows_of(built)] == [1, 2]


def test_rows_that_contain_themselves(tmp_path: Path) -> None:
    row: dict[str, Any] = {"id": 1}
    row["row"] = row
    with pytest.raises(ValueError, match="nested more than"):
        firndb.build_collection([row], path=tmp_path / "x")
    values: list[Any] = []
    values.append(values)
    with pytest.raises(TypeError, match="field `v`"):
        firndb.build_collection([{"v": values}], path=tmp_path / "x")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"x": 1}, {"x": "a"}], "field `x` has values of the types i64 and string"),
        ([{"x": 2**63}, {"x": -1}], "field `x` has values of the types"),
        ([{"x": 2**53 + 1}, {"x": 0.5}], "field `x` has values of the types"),
        ([], "no rows to infer a schema from"),
        ([{}], "no rows to infer a schema from"),
        ([{"": 1}], "name has 0 bytes"),
    ],
)
def test_what_has_no_schema(rows: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(firndb.InvalidArgumentError) as caught:
        firndb.build_collection(rows, path=tmp_path / "x")
    assert message in str(caught.value) and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (5, "not int"),
        (b"x", "not bytes"),
        ({"id": [1]}, "put it into a list"),
        (pyarrow.array([1]), "record batches"),
        (polars.LazyFrame({"id": [1]}), ""),
    ],
)
def test_sources_of_wrong_types(source: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises((TypeError, firndb.InvalidArgumentError)) as caught:
        firndb.build_collection(source, path=tmp_path / "x")
    assert message in str(caught.value) and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"path": None}, TypeError, "path"),
        ({"partition_by": "city"}, firndb.InvalidArgumentError, "no field `city`"),
        ({"partition_by": "id", "partitions": 2}, ValueError, "exclude each other"),
        ({"partitions": 0}, ValueError, "at least 1"),
        ({"partition": "../x"}, firndb.InvalidArgumentError, "name"),
        ({"order_by": "nope"}, firndb.InvalidArgumentError, "no field `nope`"),
        ({"on_error": "raise"}, ValueError, "'stop' or 'skip'"),
        ({"memory_bytes": 1000}, ValueError, "1 MiB"),
        ({"memory_bytes": -1}, ValueError, "memory_bytes"),
        ({"separator": "ab"}, ValueError, "one character"),
        ({"null_texts": "NA"}, TypeError, "list"),
        ({"bytes_format": "base64"}, ValueError, "'text' or 'hex'"),
        ({"payload": "nope"}, None, ""),
        ({"schema": {"id": "i65"}}, ValueError, "field `id`: `i65` is not a type"),
        ({"schema": {"id": "i64 sorted"}}, ValueError, "field `id`: `sorted` is not a role"),
        ({"schema": {"id": 5}}, TypeError, "field `id`"),
        ({"schema": "x.toml"}, TypeError, "from_file"),
        ({"schema": 5}, TypeError, "not int"),
    ],
)
def test_wrong_options(
    options: dict[str, Any], error: type[Exception] | None, message: str, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {"path": tmp_path / "x", **options}
    if error is None:
        firndb.build_collection([{"id": 1}], **arguments)
        return
    with pytest.raises(error) as caught:
        firndb.build_collection([{"id": 1}], **arguments)
    assert message in str(caught.value) and not (tmp_path / "x").exists()


def test_wrong_formats(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    with pytest.raises(ValueError, match="format is one of"):
        firndb.build_collection(tmp_path / "a.csv", path=tmp_path / "x", format="xml")
    with pytest.raises(firndb.NotFoundError, match=r"b\.csv"):
        firndb.build_collection(tmp_path / "b.csv", path=tmp_path / "x")
    with pytest.raises(firndb.InvalidArgumentError, match=r"a\.csv:3: column `price`"):
        firndb.build_collection(tmp_path / "a.csv", {"price": "f64"}, tmp_path / "x")
    with pytest.warns(firndb.FirnWarning, match=r"skipped 1 of 3 rows: .*a\.csv:3"):
        built = firndb.build_collection(
            tmp_path / "a.csv", {"price": "f64"}, tmp_path / "x", on_error="skip"
        )
    assert len(built) == 2


def test_nothing_is_built_in_a_foreign_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter.txt").write_text("dear")
    with pytest.raises(firndb.AlreadyExistsError, match=r"letter\.txt"):
        firndb.build_collection([{"id": 1}], path=home)
    assert [path.name for path in home.iterdir()] == ["letter.txt"]
    firndb.build_collection([{"id": 1}], path=tmp_path / "x").close()
    with pytest.raises(firndb.AlreadyExistsError, match="there is a collection already"):
        firndb.build_collection([{"id": 1}], path=tmp_path / "x")


def test_a_failing_source_leaves_nothing(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield from ({"id": n} for n in range(5000))
        raise RuntimeError("the line went dead")

    with pytest.raises(RuntimeError, match="went dead"):
        firndb.build_collection(rows(), {"id": "i64"}, tmp_path / "x")

    def batches() -> Iterator[pyarrow.RecordBatch]:
        yield pyarrow.record_batch({"id": [1]})
        raise RuntimeError("the line went dead")

    schema = pyarrow.schema([("id", pyarrow.int64())])
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(firndb.InvalidArgumentError, match="went dead"):
        firndb.build_collection(reader, path=tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_memory_is_bounded_by_further_partitions(tmp_path: Path) -> None:
    rows = ({"id": n, "text": f"{n:030}"} for n in range(60_000))
    spill = tmp_path / "spill"
    built = firndb.build_collection(
        rows, path=tmp_path / "x", memory_bytes=1 << 20, temp_dir=spill, partition="p"
    )
    names = [part.name for part in built.partitions()]
    assert len(names) > 2 and names[0] == "p" and "p.2" in names
    assert len(built) == 60_000 and list(spill.iterdir()) == []
    with built.change() as change:
        change.put("p", [{"id": 1, "text": "one"}])
    assert [part.name for part in built.partitions()] == ["p"]


def test_nanoseconds_are_never_dropped(tmp_path: Path) -> None:
    times = pyarrow.array([1_700_000_000_123_456_789], pyarrow.timestamp("ns", "UTC"))
    with pytest.raises(firndb.InvalidArgumentError, match="`ns`.*cannot be kept in microseconds"):
        firndb.build_collection(pyarrow.table({"ns": times}), path=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_arrow_types(tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "id": pyarrow.array([1, 2], pyarrow.uint8()),
            "category": pyarrow.array(["a", None]).dictionary_encode(),
            "view": pyarrow.array(["x", "y"], pyarrow.string_view()),
            "large": pyarrow.array([b"x", None], pyarrow.large_binary()),
            "date": pyarrow.array([dt.date(2024, 5, 1), None]),
            "ns": pyarrow.array([1_700_000_000_123_456_000, None], pyarrow.timestamp("ns", "UTC")),
            "list": pyarrow.array([["b", "a"], None], pyarrow.large_list(pyarrow.string())),
            "fixed": pyarrow.array([[1, 2], [3, 4]], pyarrow.list_(pyarrow.int64(), 2)),
            "nan": pyarrow.array([float("nan"), 1.0], pyarrow.float32()),
            "null": pyarrow.nulls(2),
        }
    )
    built = firndb.build_collection(table, path=tmp_path / "x")
    assert rows_of(built) == [
        {
            "id": 1,
            "category": "a",
            "view": "x",
            "large": b"x",
            "date": day(1),
            "ns": dt.datetime.fromtimestamp(1_700_000_000, dt.UTC).replace(microsecond=123_456),
            "list": ["a", "b"],
            "fixed": [1, 2],
            "nan": None,
            "null": None,
        },
        {
            "id": 2,
            "category": None,
            "view": "y",
            "large": None,
            "date": None,
            "ns": None,
            "list": [],
            "fixed": [3, 4],
            "nan": 1.0,
            "null": None,
        },
    ]
    with pytest.raises(firndb.InvalidArgumentError, match="column `d`"):
        firndb.build_collection(pyarrow.table({"d": [decimal.Decimal(1)]}), path=tmp_path / "y")
    with pytest.raises(firndb.InvalidArgumentError, match="row 1: field `id`"):
        firndb.build_collection(
            pyarrow.table({"id": [1, -1]}), {"id": "u64"}, tmp_path / "y"
        )
    frame = pandas.DataFrame({"id": [1, 2], "c": pandas.Categorical(["a", "b"])})
    assert rows_of(firndb.build_collection(frame, path=tmp_path / "y"))[1] == {"id": 2, "c": "b"}


def test_payloads(tmp_path: Path) -> None:
    rows = [{"id": 1, "html": "<p>", "raw": b"\xff"}, {"id": 2, "html": None, "raw": b""}]
    for source in (rows, pyarrow.Table.from_pylist(rows)):
        for payload, expected in [
            (None, [b"", b""]),
            ("html", [b"<p>", b""]),
            ("raw", [b"\xff", b""]),
            ("row", [b'{"id":1,"html":"<p>","raw":"ff"}', b'{"id":2,"raw":""}']),
        ]:
            path = tmp_path / f"{type(source).__name__}-{payload}"
            built = firndb.build_collection(source, path=path, payload=payload)
            assert built.search(order_by="id").payloads == expected
    for source in (rows, pyarrow.Table.from_pylist(rows)):
        with pytest.raises((TypeError, firndb.InvalidArgumentError), match="`id`.*payload"):
            firndb.build_collection(source, path=tmp_path / "x", payload="id")


def test_progress_is_reported_and_ends_a_build(tmp_path: Path) -> None:
    lines = "".join(f"{n},city\n" for n in range(200_000))
    (tmp_path / "a.csv").write_text("id,city\n" + lines)
    size = (tmp_path / "a.csv").stat().st_size
    seen: list[tuple[int, int | None]] = []
    firndb.build_collection(
        tmp_path / "a.csv", path=tmp_path / "x", progress=lambda *done: seen.append(done)
    )
    assert seen[-1] == (size, size) and seen == sorted(seen)

    def stop(done: int, total: int | None) -> None:
        raise InterruptedError("enough")

    for source in (tmp_path / "a.csv", polars.DataFrame({"id": range(10)})):
        with pytest.raises(InterruptedError, match="enough"):
            firndb.build_collection(source, path=tmp_path / "y", progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "x"]


@pytest.mark.parametrize("kind", ["files", "rows"])
def test_ctrl_c_interrupts_a_build(kind: str, tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, int]]:
        n = 0
        while True:
            yield {"id": n}
            n += 1

    fifo = tmp_path / "endless.csv"
    os.mkfifo(fifo)
    stopped = threading.Event()

    def feed() -> None:
        try:
            with fifo.open("w") as file:
                file.write("id\n")
                while not stopped.is_set():
                    file.write("1\n" * 1000)
        except BrokenPipeError:
            pass

    feeder = threading.Thread(target=feed)
    source: Any = rows()
    if kind == "files":
        source = fifo
        feeder.start()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            firndb.build_collection(source, {"id": "i64"}, tmp_path / "x")
    finally:
        timer.cancel()
        stopped.set()
        if kind == "files":
            feeder.join(10)
    assert [path.name for path in tmp_path.iterdir()] == ["endless.csv"]
