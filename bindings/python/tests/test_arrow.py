"""Other packages read stores as Arrow data."""

import resource

import duckdb
import firndb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest


@pytest.fixture(params=["bytes", "text", "rows"])
def table(request, tmp_path):
    data = pa.table({"id": [f"k{n}" for n in range(40_000)], "n": np.arange(40_000)})
    options = {"record": True} if request.param == "rows" else {}
    firndb.build_table(data, tmp_path / "t", key="id", **options).close()
    with firndb.Table(tmp_path / "t", decode=request.param != "bytes") as table:
        yield table


def number(value: object) -> int:
    return int(value)  # type: ignore[call-overload]


def total(values) -> int:
    return sum(number(value) for value in values)


SUM = 40_000 * 39_999 // 2


def value_column(table: firndb.Table) -> str:
    return "n" if table.columns else "value"


def test_pyarrow_reads_a_table(table) -> None:
    for _ in range(2):
        read = pa.table(table)
        assert read.num_rows == 40_000 and read.schema == pa.schema(table)
        assert read.column_names == ["key", value_column(table)]
        assert total(read[value_column(table)].to_pylist()) == SUM
        assert len(set(read["key"].to_pylist())) == 40_000
    assert table.to_arrow().equals(read)
    types = [str(field.type) for field in read.schema]
    expected = {
        (False, False): ["binary", "binary"],
        (True, False): ["string", "string"],
        (True, True): ["string", "int64"],
    }
    assert types == expected[table.decode, table.columns is not None]


def test_batches_are_read_one_by_one(table) -> None:
    reader = pa.RecordBatchReader.from_stream(table)
    first = reader.read_next_batch()
    assert 0 < first.num_rows < 40_000
    table.close()
    assert first.num_rows + sum(batch.num_rows for batch in reader) == 40_000


def test_pandas_reads_a_table(table) -> None:
    for frame in (pd.DataFrame.from_arrow(table), table.to_pandas()):
        assert frame.shape == (40_000, 2)
        assert total(frame[value_column(table)]) == SUM


def test_polars_reads_a_table(table) -> None:
    structs = pl.from_arrow(table)
    assert isinstance(structs, pl.Series)
    for frame in (table.to_polars(), structs.struct.unnest()):
        assert frame.shape == (40_000, 2)
        assert total(frame[value_column(table)]) == SUM


def test_duckdb_reads_a_table(table) -> None:
    records = table
    for _ in range(2):
        query = f"select count(*), sum({value_column(table)}::varchar::bigint) from records"
        assert duckdb.sql(query).fetchall() == [(40_000, SUM)]
    assert records is table


def test_log_stores_and_snapshots_are_read(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "s", decode=True) as store:
        store.put_many((f"k{n}", str(n)) for n in range(20_000))
        store.put("kept", "1", ttl=3600)
        with store.snapshot() as snapshot:
            store["later"] = "2"
            for source, rows in ((store, 20_002), (snapshot, 20_001), (store, 20_002)):
                read = pa.table(source)
                assert read.schema.names == ["key", "value", "expires_at"]
                assert read.schema == pa.schema(source) and read.num_rows == rows
                assert read["expires_at"].null_count == rows - 1
                assert source.to_arrow().num_rows == source.to_polars().height == rows
                assert len(source.to_pandas()) == rows
            records = snapshot
            assert duckdb.sql("select count(*) from records").fetchall() == [(20_001,)]
            assert records is snapshot
            with firndb.build_table(snapshot, tmp_path / "t") as frozen:
                assert len(frozen) == 20_001 and frozen["k7"] == b"7"


def test_an_empty_table_has_its_schema(tmp_path) -> None:
    with firndb.build_table({}, tmp_path / "t") as table:
        assert pa.table(table).schema.names == ["key", "value"] and len(pa.table(table)) == 0
        assert table.to_polars().shape == (0, 2)
        empty = table
        assert duckdb.sql("select * from empty").fetchall() == []
        assert empty is table


def test_a_column_called_key_stays_apart_from_the_keys(tmp_path) -> None:
    data = pa.table({"id": ["a"], "key": [1], "key_": [2]})
    with firndb.build_table(data, tmp_path / "t", key="id") as table:
        assert pa.table(table).to_pydict() == {"key__": [b"a"], "key": [1], "key_": [2]}


def test_text_that_is_not_utf8_is_an_error_of_the_stream(tmp_path) -> None:
    firndb.build_table({"a": b"\xff"}, tmp_path / "t").close()
    with (
        firndb.Table(tmp_path / "t", decode=True) as table,
        pytest.raises(Exception, match="decode=True"),
    ):
        pa.table(table)


def test_capsules_are_released_unread(table) -> None:
    for _ in range(100):
        assert "arrow_array_stream" in repr(table.__arrow_c_stream__())
        assert "arrow_schema" in repr(table.__arrow_c_schema__())
        assert table.__arrow_c_stream__(requested_schema=None) is not None


def test_the_first_batches_of_a_large_table_need_little_memory(tmp_path) -> None:
    value = np.random.default_rng(7).bytes(1 << 20)
    pairs = ((f"k{n}", value) for n in range(150))
    with firndb.build_table(pairs, tmp_path / "t", memory_bytes=16 << 20, threads=1) as _:
        pass
    before = pa.total_allocated_bytes()
    with firndb.Table(tmp_path / "t", access="buffered") as table:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        reader = pa.RecordBatchReader.from_stream(table)
        sizes = [reader.read_next_batch().nbytes for _ in range(4)]
        assert max(sizes) < 40 << 20
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
        assert grown < 100 << 10
    assert pa.total_allocated_bytes() - before < 1 << 20
