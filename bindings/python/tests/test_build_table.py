"""`build_table` from all kinds of sources."""

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import firndb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

DAY = dt.date(2024, 2, 29)
NAIVE = dt.datetime(1969, 7, 20, 20, 17, 40, 250)
AWARE = dt.datetime(2024, 2, 29, 12, 0, 0, 7, tzinfo=dt.timezone(dt.timedelta(hours=5)))

ROWS = [
    {"id": n, "name": f"name {n}", "price": n / 4, "new": n % 2 == 0, "stock": None if n else 7}
    for n in range(500)
]


def firn(*arguments: object) -> None:
    """Runs the command line of the same build."""
    program = Path(sys.executable).with_name("firn")
    if not program.exists():
        pytest.skip("there is no firn next to the interpreter")
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def dump(table: firndb.Table) -> dict[bytes, bytes]:
    with table:
        return dict(table.items())


def frame() -> pa.Table:
    return pa.Table.from_pylist(ROWS)


# ---------------------------------------------------------------- sources


@pytest.mark.parametrize(
    "source",
    [
        {"a": "1", b"b": b"2"},
        [("a", "1"), ("b", "2")],
        (["a", "1"], ["b", "2"]),
        iter([("a", b"1"), (bytearray(b"b"), memoryview(b"2"))]),
        {"a": "1", "b": "2"}.items(),
    ],
    ids=["mapping", "list", "lists", "iterator", "items"],
)
def test_keys_and_values(tmp_path, source) -> None:
    assert dump(firndb.build_table(source, tmp_path / "t")) == {b"a": b"1", b"b": b"2"}


@pytest.mark.parametrize("source", [[], {}, iter(()), ()], ids=["list", "dict", "iter", "tuple"])
def test_an_empty_source_is_an_empty_table(tmp_path, source) -> None:
    assert dump(firndb.build_table(source, tmp_path / "t")) == {}


def test_another_table_and_a_log_store(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "log") as store:
        store["a"] = "1"
        store[b"\xff"] = b"\x00"
        assert dump(firndb.build_table(store, tmp_path / "t")) == {b"a": b"1", b"\xff": b"\x00"}
    rows = firndb.build_table(ROWS, tmp_path / "rows", key="id", metadata="kept")
    with firndb.build_table(rows, tmp_path / "copy", filter=16, compression="block") as copy:
        assert copy.metadata == b"kept"
        assert copy.stats().filter == 16 and copy.stats().compression == "block"
        assert copy.columns == ["name", "price", "new", "stock"]
        assert copy == rows and copy.row("7") == rows.row("7")


def test_files_of_text(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("k1 v1\nk2 v 2\n")
    (tmp_path / "b.txt").write_text("k3\tv3\n")
    expected = {b"k1": b"v1", b"k2": b"v 2"}
    assert dump(firndb.build_table(tmp_path / "a.txt", tmp_path / "t")) == expected
    both = firndb.build_table(
        [str(tmp_path / "b.txt")], tmp_path / "u", separator="\t", format="text"
    )
    assert dump(both) == {b"k3": b"v3"}
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "c.csv").write_bytes("id;name\n1;Z\xe9ro\n".encode("latin1"))
    table = firndb.build_table(
        folder, tmp_path / "v", key="id", value="name", delimiter=";", encoding="latin1"
    )
    assert dump(table) == {b"1": "Z\xe9ro".encode()}


def test_dialects_of_files(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("title\n# no row\n'a';x;'y;'\nb;\n", encoding="utf-16")
    dialect = {
        "delimiter": ";",
        "quote": "'",
        "comment": "#",
        "header": False,
        "skip_lines": 1,
        "ragged": "fill",
        "encoding": "utf-16",
    }
    path = tmp_path / "a.csv"
    table = firndb.build_table(path, tmp_path / "t", key="column1", **dialect)
    assert table.row("a") == {"column2": "x", "column3": "y;"}
    assert table.row("b") == {"column2": None, "column3": None}
    found = firndb.build_collection(path, path=tmp_path / "c", **dialect)
    assert found.count("column3 = 'y;'") == 1
    assert list(firndb.Schema.infer(path, **dialect)) == ["column1", "column2", "column3"]
    with pytest.raises(ValueError, match="the row is longer than 8 bytes, which max_row= sets"):
        firndb.build_table(path, tmp_path / "u", key="column1", max_row=8, **dialect)
    with pytest.raises(TypeError, match="unexpected keyword argument 'quotes'"):
        firndb.build_table(path, tmp_path / "u", quotes="'")


def test_keys_of_several_columns_and_of_row_numbers(tmp_path) -> None:
    rows = [{"a": "x", "b": 1, "v": "one"}, {"a": "x", "b": 2, "v": "two"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "a.jsonl").write_text(lines)
    for n, source in enumerate([rows, tmp_path / "a.jsonl"]):
        table = firndb.build_table(source, tmp_path / f"t{n}", key=["a", "b"])
        assert dump(table) == {b"x\x1f1": b"one", b"x\x1f2": b"two"}
        table = firndb.build_table(source, tmp_path / f"u{n}", row_number=True, value="v")
        assert dump(table) == {b"1": b"one", b"2": b"two"}
    bad = [{"a": "x\x1f", "b": 1, "v": "one"}]
    with pytest.raises(ValueError, match="U\\+001F"):
        firndb.build_table(bad, tmp_path / "w", key=["a", "b"])
    with pytest.raises(ValueError, match="exclude each other"):
        firndb.build_table(rows, tmp_path / "w", key="a", row_number=True)


ARROW = [
    frame,
    lambda: frame().to_reader(max_chunksize=100),
    lambda: frame().to_batches()[0],
    lambda: pl.from_arrow(frame()),
    lambda: pd.DataFrame.from_arrow(frame()),
]


@pytest.mark.parametrize("make", ARROW, ids=["table", "reader", "batch", "polars", "pandas"])
def test_arrow_data(tmp_path, make) -> None:
    with firndb.build_table(make(), tmp_path / "t", key="id") as table:
        assert len(table) == 500
        assert table.columns == ["name", "price", "new", "stock"]
        row = table.row("3")
        assert row == {"name": "name 3", "price": 0.75, "new": False, "stock": None}


def test_a_relation_of_duckdb(tmp_path) -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select range as id, range * 2 as twice from range(100)")
    with firndb.build_table(relation, tmp_path / "t", key="id") as table:
        assert table["42"] == b"84"


def test_rows_are_dictionaries(tmp_path) -> None:
    rows = [
        {"id": "a", "i": 1, "f": 1, "s": "x", "b": b"\xff", "t": True, "d": DAY, "n": NAIVE},
        {"id": "b", "i": -(2**63), "f": 2.5, "when": AWARE, "np": np.int64(7)},
        {"id": "c", "np": np.int32(8), "f": np.float32(0.5), "t": np.bool_(False)},
    ]
    with firndb.build_table(iter(rows), tmp_path / "t", key="id") as table:
        assert table.columns == ["i", "f", "s", "b", "t", "d", "n", "when", "np"]
        nothing = dict.fromkeys(table.columns)
        assert table.row("a") == nothing | {k: v for k, v in rows[0].items() if k != "id"}
        found = table.row("b")
        assert found == nothing | {"i": -(2**63), "f": 2.5, "when": AWARE, "np": 7}
        assert found["when"].tzinfo is dt.UTC and type(found["f"]) is float
        assert table.row("c") == nothing | {"np": 8, "f": 0.5, "t": False}


def test_a_source_may_return_the_same_dictionary_again(tmp_path) -> None:
    def rows():
        row = {}
        for n in range(3):
            row["k"], row["v"] = n, f"v{n}"
            yield row

    table = firndb.build_table(rows(), tmp_path / "t", key="k")
    assert dump(table) == {b"0": b"v0", b"1": b"v1", b"2": b"v2"}


def test_one_column_is_a_value_as_it_is(tmp_path) -> None:
    rows = [
        {"k": 1, "v": "x"},
        {"k": True, "v": b"y"},
        {"k": "z", "v": 2**70},
        {"k": b"", "v": 1.5},
    ]
    expected = {b"1": b"x", b"true": b"y", b"z": str(2**70).encode(), b"": b"1.5"}
    assert dump(firndb.build_table(rows, tmp_path / "t", key="k")) == expected
    assert dump(firndb.build_table(rows, tmp_path / "u", key="k", value="v")) == expected
    texts = [{"k": "a", "v": "x"}]
    with firndb.build_table(texts, tmp_path / "w", key="k", record=True) as table:
        assert table.row("a") == {"v": "x"}


def test_declared_types_of_dictionaries(tmp_path) -> None:
    rows = [{"k": "a", "x": 1, "y": None}]
    with firndb.build_table(rows, tmp_path / "t", key="k", value=["x:double", "y:long"]) as table:
        assert table.row("a") == {"x": 1.0, "y": None}
        assert [field["type"][1] for field in json.loads(table.value_schema)["fields"]] == [
            "double",
            "long",
        ]


# ---------------------------------------------------------------- the bytes of the command line


FORMATS = {
    "csv": lambda path: frame().to_pandas().to_csv(path, index=False),
    "jsonl": lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in ROWS)),
    "parquet": lambda path: pa.parquet.write_table(frame(), path),
    "arrow": lambda path: pa.feather.write_feather(frame(), path, compression="uncompressed"),
}


@pytest.mark.parametrize("form", FORMATS)
def test_files_give_the_bytes_of_the_command_line(tmp_path, form) -> None:
    source = tmp_path / f"rows.{form}"
    FORMATS[form](source)
    firn("table", "build", source, "--key", "id", "-o", tmp_path / "cli", "--filter", "8")
    firndb.build_table(source, tmp_path / "py", key="id", filter=8).close()
    assert (tmp_path / "py").read_bytes() == (tmp_path / "cli").read_bytes()


@pytest.mark.parametrize("make", ARROW[:3], ids=["table", "reader", "batch"])
def test_arrow_data_give_the_bytes_of_the_command_line(tmp_path, make) -> None:
    FORMATS["arrow"](tmp_path / "rows.arrow")
    firn("table", "build", tmp_path / "rows.arrow", "--key", "id", "-o", tmp_path / "cli")
    firndb.build_table(make(), tmp_path / "py", key="id").close()
    assert (tmp_path / "py").read_bytes() == (tmp_path / "cli").read_bytes()


def test_dictionaries_give_the_bytes_of_json_lines(tmp_path) -> None:
    FORMATS["jsonl"](tmp_path / "rows.jsonl")
    firn("table", "build", tmp_path / "rows.jsonl", "--key", "id", "-o", tmp_path / "cli")
    firndb.build_table(ROWS, tmp_path / "py", key="id").close()
    assert (tmp_path / "py").read_bytes() == (tmp_path / "cli").read_bytes()


# ---------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        (7, {}, TypeError, "not int"),
        (b"path", {}, TypeError, "not bytes"),
        (None, {}, TypeError, "not NoneType"),
        ([1, 2], {}, TypeError, "item 1 is not a pair of a key and a value, but int"),
        ([("a", "1"), ("b",)], {}, TypeError, "item 2 is not a pair"),
        ([("a", "1"), ("b", 2)], {}, TypeError, "item 2: the value is int"),
        ({1: "a"}, {}, TypeError, "item 1: the key is int"),
        ([("a", "1"), {"a": 1}], {}, TypeError, "item 2 is not a pair"),
        ([("a", "1")], {"key": "id"}, ValueError, "rows with columns"),
        ([("a", "1"), ("a", "2")], {}, ValueError, "item 1.*item 2"),
        ([{"a": 1}], {}, ValueError, "key=: a"),
        ([{"a": 1}], {"key": "a"}, ValueError, "no column besides the key"),
        ([{"a": 1, "b": {}, "c": 1}], {"key": "a"}, TypeError, "item 1: column `b`: .*dict"),
        (
            [{"k": 1, "b": 1, "c": 1}, {"k": 2, "b": "x"}],
            {"key": "k"},
            TypeError,
            "item 2: column `b`: the value is str, and those before are int",
        ),
        ([{"k": 1, "b": 1}, ("k", 1)], {"key": "k"}, TypeError, "item 2 is tuple"),
        ([{"k": 1, 2: 1}], {"key": "k"}, TypeError, "item 1: the names of columns are str"),
        ([{"k": 1, "b": 1}, {"b": 1}], {"key": "k"}, ValueError, "item 2: column `k`: there is no"),
        ([{"k": None, "b": 1}], {"key": "k"}, ValueError, "item 1: column `k`: there is no value"),
        ([{"k": 1, "b": 2**63, "c": 1}], {"key": "k"}, ValueError, "does not fit into 64 bits"),
        (
            [{"k": 1, "b": 2**60, "c": 1}, {"k": 2, "b": 0.5}],
            {"key": "k"},
            ValueError,
            "would be rounded",
        ),
        ([{"k": 1, "b": 1}], {"key": "k", "value": ["b:json", "k"]}, ValueError, "json"),
        ([{"k": 1, "b": pd.NaT, "c": 1}], {"key": "k"}, ValueError, "item 1: column `b`: "),
        ([{"k": 1, "b": "\ud800", "c": 1}], {"key": "k"}, ValueError, "item 1: column `b`: "),
        ([{"k": "\ud800", "b": 1}], {"key": "k"}, ValueError, "item 1: column `k`: "),
        ({"a": "1"}, {"duplicates": "both"}, ValueError, "duplicates is 'both'"),
        ({"a": "1"}, {"on_error": "ignore"}, ValueError, "on_error is 'ignore'"),
        ({"a": "1"}, {"compression": "zip"}, ValueError, "compression is 'zip'"),
        ({"a": "1"}, {"filter": 7}, ValueError, "filter is 7"),
        ({"a": "1"}, {"block_size": 1000}, ValueError, "multiple of 4096"),
        ({"a": "1"}, {"memory_bytes": 1}, ValueError, "memory"),
        ({"a": "1"}, {"threads": "many"}, TypeError, "threads"),
        ({"a": "1"}, {"threads": -1}, ValueError, "threads is negative"),
        ({"a": "1"}, {"level": 99, "compression": "block"}, ValueError, "level"),
        ({"a": "1"}, {"temp_dir": "/nowhere/at/all"}, FileNotFoundError, "nowhere"),
        ({"a" * 70_000: "1"}, {}, ValueError, "65536"),
        (pa.array([1, 2]), {"key": "a"}, TypeError, "array of Int64"),
        (pa.table({"a": [1]}), {}, ValueError, "key=: a"),
        (pa.table({"a": [1], "b": [1]}), {"key": "c"}, ValueError, "no column `c`; columns are a"),
        (pa.table({"a": [7, None], "b": [1, 2]}), {"key": "a"}, ValueError, "source:2: column `a`"),
        (pa.table([[1], [2]], names=["a", "a"]), {"key": "a"}, ValueError, "name `a`"),
        ("/nowhere/at/all", {}, FileNotFoundError, "nowhere"),
    ],
)
def test_wrong_sources_and_options(tmp_path, source, options, error, message) -> None:
    with pytest.raises(error, match=message):
        firndb.build_table(source, tmp_path / "t", **options)
    assert leftovers(tmp_path) == []


def test_messages_name_the_arguments_of_python(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,x\n2,y\n")
    for options, message in [
        ({}, "key="),
        ({"key": "id", "value": "name:long"}, "record=True"),
        ({"key": "id", "format": "xml"}, "one of auto, text, csv"),
        ({"key": "id", "encoding": "klingon"}, "not the name of an encoding"),
        ({"key": "id", "delimiter": ",,"}, "one ASCII character"),
        ({"separator": ""}, "at least one byte"),
        ({"separator": " ", "key": "id"}, "separator= divides"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            firndb.build_table(tmp_path / "a.csv", tmp_path / "t", **options)
        assert "--" not in str(caught.value)


def test_bad_rows_stop_the_build_or_are_skipped_with_one_warning(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id,name,n\n1,x,1\n,y,2\n3,z,3\n,q,4\n")
    with pytest.raises(firndb.InvalidArgumentError, match=r"a\.csv:3"):
        firndb.build_table(tmp_path / "a.csv", tmp_path / "t", key="id")
    with pytest.warns(firndb.FirnWarning) as caught:
        table = firndb.build_table(
            tmp_path / "a.csv", tmp_path / "t", key="id", on_error="skip"
        )
    assert sorted(table) == [b"1", b"3"]
    [warning] = caught
    assert "2 of 4 rows were skipped" in str(warning.message)
    assert "a.csv:3" in str(warning.message) and warning.filename == __file__
    rows = [{"k": n, "a": n, "b": n} for n in range(20_000)] + [{"k": "x", "a": "y"}, {"z": 1}]
    with pytest.warns(firndb.FirnWarning, match="2 of 20,002 rows were skipped: item 20001: "):
        table = firndb.build_table(rows, tmp_path / "u", key="k", on_error="skip")
    assert len(table) == 20_000


def test_a_column_that_appears_late_is_named(tmp_path) -> None:
    rows = [{"k": n, "a": n} for n in range(10_001)] + [{"k": -1, "a": 1, "b": 2}]
    with pytest.raises(ValueError, match="item 10002: column `b` is in none of the first rows"):
        firndb.build_table(rows, tmp_path / "t", key="k", record=True)
    with firndb.build_table(rows, tmp_path / "t", key="k", value=["a", "b:long"]) as table:
        assert table.row("-1") == {"a": 1, "b": 2}


@pytest.mark.parametrize(("keep", "value"), [("first", b"1"), ("last", b"3")])
def test_duplicates(tmp_path, keep, value) -> None:
    pairs = [("a", "1"), ("a", "2"), ("a", "3")]
    assert dump(firndb.build_table(pairs, tmp_path / "t", duplicates=keep)) == {b"a": value}


class Given:
    """Returns what it is given instead of capsules."""

    def __init__(self, **methods: object) -> None:
        for name, value in methods.items():
            setattr(self, f"__arrow_c_{name}__", lambda *_, value=value: value)


def test_wrong_capsules(tmp_path) -> None:
    data = pa.table({"k": ["a"], "v": ["b"]})
    read = data.__arrow_c_stream__()
    pa.RecordBatchReader._import_from_c_capsule(read).read_all()
    schema, array = data.to_batches()[0].__arrow_c_array__()
    wrong = [
        Given(stream=None),
        Given(stream=read),
        Given(stream=schema),
        Given(array=7),
        Given(array=(1, 2)),
        Given(array=(array, schema)),
    ]
    for source in wrong:
        with pytest.raises((TypeError, ValueError)):
            firndb.build_table(source, tmp_path / "t", key="k")
    once = Given(array=(schema, array))
    assert dump(firndb.build_table(once, tmp_path / "t", key="k")) == {b"a": b"b"}
    with pytest.raises(TypeError, match="consumed before"):
        firndb.build_table(once, tmp_path / "u", key="k")


# ---------------------------------------------------------------- all or nothing


def test_only_tables_are_replaced_and_only_with_overwrite(tmp_path) -> None:
    path = tmp_path / "t"
    old = firndb.build_table({"a": "old"}, path)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        firndb.build_table({"a": "new"}, path)
    new = firndb.build_table({"a": "new"}, path, overwrite=True)
    assert (old["a"], new["a"]) == (b"old", b"new")
    foreign = tmp_path / "notes.txt"
    foreign.write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(path)
    with firndb.LogStore(tmp_path / "log"):
        for path in [foreign, tmp_path / "folder", tmp_path / "link", tmp_path / "log" / "t"]:
            with pytest.raises(FileExistsError):
                firndb.build_table({"a": "1"}, path, overwrite=True)
    assert foreign.read_text() == "mine"
    with pytest.raises(FileNotFoundError):
        firndb.build_table({"a": "1"}, tmp_path / "absent" / "t")


def test_a_table_does_not_replace_its_own_input(tmp_path) -> None:
    firndb.build_table({"a": "1"}, tmp_path / "t").close()
    with pytest.raises(firndb.InvalidArgumentError, match="its own input"):
        firndb.build_table(tmp_path / "t", tmp_path / "t", overwrite=True)


class Broken(Exception):
    """An error of a source."""


def broken_pairs():
    for n in range(50_000):
        yield (str(n), "x")
    raise Broken("pairs")


def broken_rows():
    yield {"k": 1, "v": 2}
    raise Broken("rows")


def broken_batches():
    yield pa.record_batch({"k": [1], "v": [2]})
    raise Broken("batches")


def test_an_exception_of_the_source_leaves_nothing_behind(tmp_path) -> None:
    with pytest.raises(Broken, match="pairs"):
        firndb.build_table(broken_pairs(), tmp_path / "t")
    with pytest.raises(Broken, match="rows"):
        firndb.build_table(broken_rows(), tmp_path / "t", key="k")
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    reader = pa.RecordBatchReader.from_batches(schema, broken_batches())
    with pytest.raises(firndb.InvalidArgumentError, match="batches"):
        firndb.build_table(reader, tmp_path / "t", key="k")
    assert leftovers(tmp_path) == []


def test_progress_is_reported_and_its_exceptions_end_the_build(tmp_path) -> None:
    seen: list[tuple[int, int | None]] = []
    data = pa.table({"k": np.arange(1000), "v": np.arange(1000)})
    table = firndb.build_table(
        data, tmp_path / "t", key="k", progress=lambda *now: seen.append(now)
    )
    assert seen[-2:] == [(1000, 1000), (1000, 1000)] and len(table) == 1000

    def stop(done: int, total: int | None) -> None:
        raise Broken("progress")

    def slow():
        for n in range(100):
            time.sleep(0.02)
            yield pa.record_batch({"k": [n], "v": [n]})

    reader = pa.RecordBatchReader.from_batches(data.schema, slow())
    with pytest.raises(Broken, match="progress"):
        firndb.build_table(reader, tmp_path / "u", key="k", progress=stop)
    assert leftovers(tmp_path) == ["t"]


def test_progress_bars(tmp_path, capsys) -> None:
    (tmp_path / "a.txt").write_text("a b\n" * 10)
    firndb.build_table(tmp_path / "a.txt", tmp_path / "t", duplicates="last", progress=True)
    shown = capsys.readouterr().err
    assert "reading" in shown and "writing" in shown
    firndb.build_table({"a": "b"}, tmp_path / "u", progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", ["arrow", "pipe", "pairs"])
def test_ctrl_c_ends_a_build(tmp_path, kind) -> None:
    release = threading.Event()

    def batches():
        yield pa.record_batch({"k": [1], "v": [2]})
        release.wait(20)

    def pairs():
        yield ("a", "b")
        release.wait(20)

    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    source: object
    if kind == "arrow":
        source = pa.RecordBatchReader.from_batches(schema, batches())
    elif kind == "pairs":
        source = pairs()
    else:
        os.mkfifo(tmp_path / "pipe")
        writer = os.open(tmp_path / "pipe", os.O_RDWR)
        os.write(writer, b"a b\n")
        source = tmp_path / "pipe"
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    # The thread that reads the stream ends once the producer returns.
    freed = threading.Timer(0.6, release.set)
    timer.start()
    freed.start()
    start = time.monotonic()
    options = {"key": "k"} if kind == "arrow" else {}
    with pytest.raises(KeyboardInterrupt):
        firndb.build_table(source, tmp_path / "t", **options)
    assert time.monotonic() - start < 10
    freed.join()
    if kind == "pipe":
        os.close(writer)
    assert not (tmp_path / "t").exists()


def test_other_threads_run_while_a_table_is_built(tmp_path) -> None:
    turns = 0
    done = threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    data = pa.table({"k": np.arange(200_000), "v": np.arange(200_000)})
    firndb.build_table(data, tmp_path / "t", key="k").close()
    done.set()
    counter.join()
    assert turns > 20


def test_long_builds_spill_to_the_temporary_directory(tmp_path) -> None:
    (tmp_path / "temp").mkdir()
    pairs = ((n.to_bytes(4, "big"), b"x" * 100) for n in range(300_000))
    table = firndb.build_table(
        pairs, tmp_path / "t", memory_bytes=16 << 20, temp_dir=tmp_path / "temp", threads=1
    )
    assert len(table) == 300_000 and table[(7).to_bytes(4, "big")] == b"x" * 100
    assert leftovers(tmp_path / "temp") == []


def test_options_of_the_file(tmp_path) -> None:
    pairs = {str(n): "text " * 20 for n in range(2000)}
    with firndb.build_table(
        pairs, tmp_path / "t", block_size=8192, compression="record", level=7, metadata=b"\x00"
    ) as table:
        stats = table.stats()
        assert (stats.block_size, stats.compression, stats.level) == (8192, "record", 7)
        assert table.metadata == b"\x00" and table["5"] == b"text " * 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        absent = firndb.build_table(
            pairs, tmp_path / "t", overwrite=True, progress=False, filter=8
        )
    assert absent.stats().filter == 8


def test_approximate_tables(tmp_path) -> None:
    numbers = range(1000)
    rows = pa.table({"k": [f"k{n}" for n in numbers], "v": [n.to_bytes(2) for n in numbers]})
    path = tmp_path / "t"
    with firndb.build_approximate_table(
        rows, path, key="k", value="v", value_width=2, fingerprint_bits=32, metadata="m"
    ) as table:
        assert isinstance(table, firndb.ApproximateTable) and len(table) == 1000
        assert table["k7"] == (7).to_bytes(2) and table.get("no", b"-") == b"-"
        assert table.get_many(["k1", "no"]) == [b"\x00\x01", None]
        assert pa.array(table.get_many(["k1", "no"], arrow=True)).null_count == 1
        assert "k9" in table and "no" not in table
        assert (table.stats().value_width, table.metadata) == (2, b"m")
        assert table.verify().records == 1000
    with pytest.raises(KeyError):
        firndb.ApproximateTable(path)["no"]
    with pytest.raises(firndb.InvalidArgumentError, match="width|bytes"):
        firndb.build_approximate_table({"a": b"123"}, tmp_path / "u", value_width=2)
    with pytest.raises(TypeError):
        iter(firndb.ApproximateTable(path))
    with pytest.raises(firndb.FirnError):
        firndb.Table(path)
