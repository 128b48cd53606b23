"""Hits: rows, and Arrow data for pyarrow, pandas, polars and duckdb."""

import datetime as dt
import pickle
from collections.abc import Iterator
from pathlib import Path

import duckdb
import firndb
import pandas
import polars
import pyarrow
import pytest

ROWS = [
    {
        "id": n,
        "name": f"room {n}" if n % 3 else None,
        "price": n / 4,
        "tags": ["sea", f"t{n % 5}"] if n % 2 else [],
        "seen": dt.datetime(2024, 5, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=n),
        "hash": bytes([n % 256, 0]),
        "open": n % 2 == 0,
    }
    for n in range(500)
]


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[firndb.Collection]:
    path = tmp_path_factory.mktemp("hits") / "rooms"
    with firndb.build_collection(ROWS, path=path, payload="row", partitions=3) as collection:
        yield collection


def sorted_row(row: dict[str, object]) -> dict[str, object]:
    return {**row, "tags": sorted(row["tags"])}  # type: ignore[call-overload]


def test_rows_have_typed_values(rooms: firndb.Collection) -> None:
    hits = rooms.search(order_by="id")
    assert len(hits) == 500
    assert list(hits) == [sorted_row(row) for row in ROWS] == hits.to_dicts()
    assert hits[0] == hits[-500] == sorted_row(ROWS[0])
    assert hits[7]["seen"].tzinfo is dt.UTC and type(hits[7]["seen"]) is dt.datetime
    for index in (500, -501):
        with pytest.raises(IndexError, match=f"row {index} of 500 rows"):
            hits[index]
    with pytest.raises(TypeError):
        hits["id"]  # type: ignore[call-overload]


def test_slices_are_hits(rooms: firndb.Collection) -> None:
    hits = rooms.search(None, "id", order_by="id", limit=100)
    part = hits[10:20:3]
    assert type(part) is firndb.Hits and [row["id"] for row in part] == [10, 13, 16, 19]
    assert [row["id"] for row in hits[::-50]] == [99, 49] and len(hits[200:]) == 0
    assert part.to_arrow().num_rows == 4 and part.next is None and hits.next is not None
    assert hits[-1] == {"id": 99} and {"id": 5} in hits and {"id": 500} not in hits
    assert next(reversed(hits)) == {"id": 99}


def test_fields_and_payloads(rooms: firndb.Collection) -> None:
    hits = rooms.search("id < 2", ["name", firndb.F.id], True, order_by="id")
    assert hits.fields == ["name", "id"]
    assert list(hits[0]) == ["name", "id", "payload"]
    assert hits.payloads == [hits[0]["payload"], hits[1]["payload"]]
    assert b'"name":"room 1"' in hits.payloads[1]
    only = rooms.search("id = 1", [], payload=True)
    assert only.to_dicts() == [{"payload": hits.payloads[1]}]
    assert only.to_arrow().column_names == ["payload"]
    assert rooms.search("id = 1", []).to_arrow().num_rows in (0, 1)


def test_pages_and_totals(rooms: firndb.Collection) -> None:
    first = rooms.search("price >= 100", "id", order_by="id", limit=60, count=True)
    assert (first.total, len(first)) == (100, 60)
    second = rooms.search("price >= 100", "id", order_by="id", limit=60, after=first.next)
    assert second.next is None and second.total is None
    assert [row["id"] for row in [*first, *second]] == list(range(400, 500))
    with pytest.raises(firndb.InvalidArgumentError, match="page token"):
        rooms.search(order_by="id", after="nonsense")


SCHEMA = pyarrow.schema(
    [
        pyarrow.field("id", pyarrow.int64(), nullable=False),
        pyarrow.field("name", pyarrow.string()),
        pyarrow.field("price", pyarrow.float64(), nullable=False),
        pyarrow.field(
            "tags",
            pyarrow.list_(pyarrow.field("item", pyarrow.string(), nullable=False)),
            nullable=False,
        ),
        pyarrow.field("seen", pyarrow.timestamp("us", "UTC"), nullable=False),
        pyarrow.field("hash", pyarrow.binary(), nullable=False),
        pyarrow.field("open", pyarrow.bool_(), nullable=False),
    ]
)


@pytest.mark.parametrize("query", ["id >= 0", "id < 0"])
def test_pyarrow_reads_hits_any_number_of_times(rooms: firndb.Collection, query: str) -> None:
    hits = rooms.search(query, order_by="id")
    streamed = pyarrow.RecordBatchReader.from_stream(hits).read_all()
    for table in (pyarrow.table(hits), hits.to_arrow(), streamed):
        assert table.schema == SCHEMA
        assert table.to_pylist() == hits.to_dicts()
    assert pyarrow.schema(hits) == SCHEMA


def test_a_capsule_is_consumed_once(rooms: firndb.Collection) -> None:
    hits = rooms.search("id < 3", "id")
    capsule = hits.__arrow_c_stream__()

    class Once:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return capsule

    assert pyarrow.table(Once()).num_rows == 3
    with pytest.raises((ValueError, pyarrow.ArrowInvalid)):
        pyarrow.table(Once())


def test_polars_and_pandas_and_duckdb_read_hits(rooms: firndb.Collection) -> None:
    hits = rooms.search("id < 50", order_by="id")
    frame = hits.to_polars()
    assert frame.schema["seen"] == polars.Datetime("us", "UTC")
    assert frame.schema["tags"] == polars.List(polars.String)
    assert frame.to_dicts() == hits.to_dicts() == polars.DataFrame(hits).to_dicts()
    pandas_frame = hits.to_pandas()
    assert isinstance(pandas_frame, pandas.DataFrame)
    assert pandas_frame["id"].tolist() == list(range(50))
    assert pandas_frame["seen"].iloc[3] == pandas.Timestamp(ROWS[3]["seen"])
    found = duckdb.sql("select name, sum(id) from hits group by name")
    assert len(found.fetchall()) == 34
    assert duckdb.sql("select max(price) from hits").fetchall() == [(49 / 4,)]


def test_empty_results_keep_their_columns(rooms: firndb.Collection) -> None:
    hits = rooms.search("id < 0", payload=True)
    assert len(hits) == 0 and not hits and list(hits) == [] and hits.payloads == []
    names = [*SCHEMA.names, "payload"]
    assert hits.to_arrow().column_names == names
    assert hits.to_polars().columns == names
    assert list(hits.to_pandas().columns) == names
    assert duckdb.sql("select * from hits").columns == names


def test_large_results_stream_in_batches(tmp_path: Path) -> None:
    rows = ({"n": n} for n in range(150_000))
    collection = firndb.build_collection(rows, path=tmp_path / "n")
    hits = collection.search(order_by="n desc")
    batches = list(pyarrow.RecordBatchReader.from_stream(hits))
    assert [batch.num_rows for batch in batches] == [65_536, 65_536, 18_928]
    assert hits.to_polars()["n"].to_list() == list(range(149_999, -1, -1))


def test_hits_outlive_the_collection(tmp_path: Path) -> None:
    with firndb.build_collection(ROWS, path=tmp_path / "rooms") as collection:
        hits = collection.search("id < 3", order_by="id")
        with collection.change() as change:
            change.clear()
        assert len(collection) == 0
    assert [row["id"] for row in hits] == [0, 1, 2] and hits.to_arrow().num_rows == 3


def test_notebooks_show_escaped_rows(tmp_path: Path) -> None:
    rows = [{"<b>": f"<script>{n}", "x": b"\xff" * 100} for n in range(20)]
    collection = firndb.build_collection(rows, path=tmp_path / "x")
    shown = collection.search(limit=15, count=True)._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;9" in shown and "script&gt;10" not in shown
    assert "<b>" not in shown and "10 of 20 hits" in shown
    assert "0 of 0 hits" in collection.search("exists x and not exists x")._repr_html_()
    assert repr(collection.search(limit=1)) == "<Hits: 1, fields <b>, x>"


def test_a_field_called_payload_does_not_hide_the_payload(tmp_path: Path) -> None:
    rows = [{"payload": 7, "text": "abc"}]
    collection = firndb.build_collection(rows, path=tmp_path / "x", payload="text")
    hits = collection.search(payload=True)
    assert hits[0] == {"payload": 7, "text": "abc", "_payload": b"abc"}
    assert hits.to_arrow().column_names == ["payload", "text", "_payload"]


def test_times_beyond_datetime_are_in_arrow(tmp_path: Path) -> None:
    early = pyarrow.array([-(2**56)], pyarrow.timestamp("us", "UTC"))
    collection = firndb.build_collection(pyarrow.table({"t": early}), path=tmp_path / "x")
    hits = collection.search()
    with pytest.raises(OverflowError, match="to_arrow"):
        hits.to_dicts()
    assert hits.to_arrow().column("t").cast("int64").to_pylist() == [-(2**56)]


def test_hits_are_not_pickled(rooms: firndb.Collection) -> None:
    with pytest.raises(TypeError, match="to_dicts"):
        pickle.dumps(rooms.search(limit=1))
