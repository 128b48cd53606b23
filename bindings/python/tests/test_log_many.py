"""Batch calls of log stores: their keys and the values that they return."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import firndb


@pytest.fixture
def store(tmp_path):
    with firndb.LogStore(tmp_path / "store") as store:
        for n in range(10):
            store[f"key {n}"] = f"value {n}"
        yield store


WANTED = ["key 3", "absent", "key 7", "key 3"]
FOUND = [b"value 3", None, b"value 7", b"value 3"]


def _dictionary(value_type):
    return pa.array(WANTED, value_type).dictionary_encode()


KEYS = {
    "list": WANTED,
    "list of bytes": [key.encode() for key in WANTED],
    "tuple": tuple(WANTED),
    "generator": lambda: (key for key in WANTED),
    "buffers": [bytearray(WANTED[0].encode()), memoryview(b"absent"), *WANTED[2:]],
    "numpy text": np.array(WANTED),
    "numpy bytes": np.array([key.encode() for key in WANTED]),
    "binary": pa.array(WANTED, pa.binary()),
    "large binary": pa.array(WANTED, pa.large_binary()),
    "binary view": pa.array(WANTED, pa.binary_view()),
    "utf8": pa.array(WANTED, pa.utf8()),
    "large utf8": pa.array(WANTED, pa.large_utf8()),
    "utf8 view": pa.array(WANTED, pa.string_view()),
    "dictionary": _dictionary(pa.utf8()),
    "dictionary of binary": _dictionary(pa.binary()),
    "slice": pa.array(["x", *WANTED, "y"]).slice(1, 4),
    "chunks": pa.chunked_array([WANTED[:1], [], WANTED[1:]]),
    "table": pa.table({"any": WANTED}),
    "polars": pl.Series(WANTED),
    "polars categorical": pl.Series(WANTED, dtype=pl.Categorical),
    "polars frame": pl.DataFrame({"any": WANTED}),
    "pandas": pd.Series(WANTED),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_keys_come_from_any_iterable_or_arrow_data(store, keys) -> None:
    keys = keys() if callable(keys) else keys
    assert store.get_many(keys) == FOUND


def test_keys_of_fixed_size(store) -> None:
    keys = pa.array([b"key 1", b"key 2"], pa.binary(5))
    assert store.get_many(keys) == [b"value 1", b"value 2"]


@pytest.mark.parametrize("keys", [[], (), pa.array([], pa.utf8()), pa.chunked_array([], pa.utf8())])
def test_no_keys(store, keys) -> None:
    assert store.get_many(keys) == []
    assert len(store.get_many(keys, arrow=True)) == 0


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["key 1", None, "key 2"]),
        pa.array(["key 1", None, "key 2"], pa.string_view()),
        pa.array(["key 1", None, "key 2"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays([0, 1, 2], ["key 1", None, "key 2"]),
    ],
)
def test_a_null_key_is_absent(store, keys) -> None:
    store[b""] = "the empty key is a key"
    assert store.get_many(keys) == [b"value 1", None, b"value 2"]
    assert store.get_many([""]) == [b"the empty key is a key"]


def test_a_dictionary_of_nothing_but_nulls(store) -> None:
    keys = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array([], "utf8"))
    assert store.get_many(keys) == [None, None]


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        (b"key 1", TypeError, "not a single bytes"),
        ("key 1", TypeError, "not a single str"),
        (5, TypeError, "not int"),
        (None, TypeError, "not NoneType"),
        (["key 1", 5], TypeError, "bytes or str, not int"),
        ([None], TypeError, "bytes or str, not NoneType"),
        (["\udc80"], UnicodeEncodeError, "surrogates"),
        (pa.array([1, 2]), TypeError, "binary or text, not Int64"),
        (pa.array([1, 2]).dictionary_encode(), TypeError, "binary or text"),
        (pa.table({"a": ["x"], "b": ["y"]}), ValueError, "2 columns; give one"),
        (pd.Series([1.5]), TypeError, "binary or text, not Float64"),
    ],
)
def test_wrong_keys(store, keys, error, message) -> None:
    with pytest.raises(error, match=message):
        store.get_many(keys)


def test_an_error_of_an_iterator_passes_through(store) -> None:
    def keys():
        yield "key 1"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        store.get_many(keys())


def test_an_error_of_an_arrow_stream_passes_through(store) -> None:
    def batches():
        yield pa.record_batch({"key": ["key 1"]})
        raise LookupError("mine")

    keys = pa.RecordBatchReader.from_batches(pa.schema({"key": pa.utf8()}), batches())
    with pytest.raises(ValueError, match="mine"):
        store.get_many(keys)


def test_an_absent_key_has_the_default(store) -> None:
    assert store.get_many(["key 1", "absent"], b"none") == [b"value 1", b"none"]
    with pytest.raises(ValueError, match="default"):
        store.get_many(["key 1"], b"none", arrow=True)


def test_values_as_an_arrow_array(store) -> None:
    values = store.get_many(WANTED, arrow=True)
    assert isinstance(values, firndb.Array)
    assert (len(values), values.null_count) == (4, 1)
    assert values.nbytes > 0
    assert [*values] == values.to_pylist() == FOUND
    assert (values[0], values[1], values[-1]) == (b"value 3", None, b"value 3")
    for index in (4, -5, 2**62, -(2**62)):
        with pytest.raises(IndexError):
            values[index]
    assert repr(values) == "<firndb.Array of 4 large_binary values, 1 of them null>"
    for _ in range(2):  # The capsules can be taken any number of times.
        array = pa.array(values)
        array.validate(full=True)
        assert array.type == pa.large_binary()
        assert array.to_pylist() == FOUND
    assert pa.field(values).type == pa.large_binary()
    assert values.to_pyarrow().equals(array)
    assert values.to_polars().to_list() == FOUND
    assert pl.Series(values).to_list() == FOUND
    assert values.to_pandas().dropna().to_list() == [b"value 3", b"value 7", b"value 3"]


def test_values_as_text(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "s", decode=True) as store:
        store["a"] = "\u00e9"
        store["b"] = b"\xff"
        values = store.get_many(["a", "c"], arrow=True)
        assert values.to_pylist() == ["\u00e9", None] == store.get_many(["a", "c"])
        assert pa.array(values).type == pa.large_utf8()
        assert "large_utf8" in repr(values)
        for arrow in (False, True):
            with pytest.raises(UnicodeDecodeError):
                store.get_many(["a", "b"], arrow=arrow)


def test_more_keys_than_one_chunk(store) -> None:
    keys = [f"key {n % 11}" for n in range(10_000)]
    expected = [None if n % 11 == 10 else b"value %d" % (n % 11) for n in range(10_000)]
    assert store.get_many(keys) == expected
    assert store.get_many(pa.array(keys)) == expected
