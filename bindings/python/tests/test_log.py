"""Log stores."""

import copy
import itertools
import os
import pickle
from datetime import UTC, datetime, timedelta, timezone

import firndb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(path):
    with firndb.LogStore(path) as store:
        yield store


def test_a_store_is_a_mutable_mapping(path) -> None:
    with firndb.LogStore(path) as store:
        store[b"a"] = b"1"
        store["b"] = "2"
        assert store[b"a"] == b"1" and store.get("b") == b"2"
        assert dict(store) == {b"a": b"1", b"b": b"2"}
        assert len(store) == 2 and "a" in store and "c" not in store
        with pytest.raises(KeyError):
            store["c"]
        del store["a"]
        assert list(store) == [b"b"]
    with pytest.raises(ValueError, match="the store is closed"):
        store["b"]
    store.close()


def test_keys_and_values_are_decoded_if_wanted(path) -> None:
    with firndb.LogStore(path, decode=True) as store:
        store["\u00e9"] = "\u20ac"
        assert store["\u00e9"] == "\u20ac" == store["\u00e9".encode()]
        assert [*store.items()] == [("\u00e9", "\u20ac")]
        store["x"] = b"\xff\xfe"
        with pytest.raises(UnicodeDecodeError):
            store["x"]
        with pytest.raises(UnicodeDecodeError):
            list(store.values())
        assert "x" in store


@pytest.mark.parametrize(
    "value", [b"", b"\0", bytearray(b"xy"), memoryview(b"abcd")[::2], "\u00e9"]
)
def test_values_of_all_kinds(store, value) -> None:
    store["k"] = value
    assert store["k"] == (value.encode() if isinstance(value, str) else bytes(value))


@pytest.mark.parametrize("wrong", [None, 5, 1.5, ("a",), ["a"], object()])
def test_keys_and_values_of_wrong_types(store, wrong) -> None:
    calls = [
        lambda: store[wrong],
        lambda: store.get(wrong),
        lambda: wrong in store,
        lambda: store.put(wrong, b""),
        lambda: store.put(b"", wrong),
        lambda: store.delete(wrong),
        lambda: store.pop(wrong),
        lambda: store.append("k", wrong),
        lambda: store.setdefault("k", wrong),
        lambda: store.update("k", lambda old: (wrong, 1)),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert len(store) == 0


def test_limits(store) -> None:
    store[b"k" * 65_536] = b"v"
    with pytest.raises(firndb.InvalidArgumentError, match="65537"):
        store[b"k" * 65_537] = b"v"


def test_modes(path) -> None:
    for mode in ("r", "w"):
        with pytest.raises(firndb.NotFoundError):
            firndb.LogStore(path, mode)
    assert not path.exists()
    with firndb.LogStore(path, "x") as store:
        store["a"] = "1"
        for mode in ("w", "c"):
            with pytest.raises(firndb.LockedError):
                firndb.LogStore(path, mode)
        with firndb.LogStore(path, "r") as reader:
            assert reader.read_only and reader["a"] == b"1"
    with pytest.raises(firndb.AlreadyExistsError) as caught:
        firndb.LogStore(path, "x")
    assert caught.value.path == str(path)
    with firndb.LogStore(path, "w") as store:
        assert (store["a"], store.mode, store.read_only) == (b"1", "w", False)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "a"}, ValueError, "give 'r' to read"),
        ({"access": "mmap"}, ValueError, "'map'"),
        ({"durability": "none"}, ValueError, "'sync'"),
        ({"segment_bytes": 1}, firndb.InvalidArgumentError, "4 KiB to 8 GiB"),
        ({"segment_bytes": -1}, OverflowError, "negative"),
        ({"compaction_threshold": 2.0}, ValueError, "0.01 to 0.99"),
        ({"compaction_threshold": float("nan")}, ValueError, "0.01 to 0.99"),
        ({"unknown": 1}, TypeError, "unknown"),
    ],
)
def test_wrong_options(path, options, error, message) -> None:
    with pytest.raises(error, match=message):
        firndb.LogStore(path, **options)
    assert not path.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"access": "buffered"},
        {"durability": "sync"},
        {"background": False},
        {"segment_bytes": 4096, "compaction_threshold": 0.3},
        {"compaction_rate": 1 << 20, "checkpoint_bytes": 1 << 20},
    ],
)
def test_a_store_with_options(path, options) -> None:
    with firndb.LogStore(path, **options) as store:
        for n in range(300):
            store[f"key {n % 40}"] = f"value {n}"
        store.maintain()
        del store["key 0"]
        assert (len(store), store["key 39"], store.get("key 0")) == (39, b"value 279", None)
        assert "key 39" in store and "key 0" not in store
        assert store.get_many(["key 39", "key 0"]) == [b"value 279", None]
        assert len(dict(store)) == 39
        with store.snapshot() as snapshot:
            store["key 39"] = "x"
            assert snapshot["key 39"] == b"value 279" and "key 0" not in snapshot
            assert snapshot.expiry("key 39") is None


def test_reads_of_a_read_only_store_and_refused_writes(path) -> None:
    with firndb.LogStore(path) as store:
        store["a"] = "1"
    with firndb.LogStore(path, "r") as store:
        calls = [
            lambda: store.put("a", "2"),
            lambda: store.delete("a"),
            lambda: store.put_many({"a": "2"}),
            lambda: store.batch(),
            lambda: store.update("a", lambda old: old),
            lambda: store.compare_and_set("a", "1", "2"),
            lambda: store.append("a", "2"),
            lambda: store.setdefault("b", "2"),
            lambda: store.pop("a"),
            lambda: store.popitem(),
            lambda: store.clear(),
            lambda: store.set_expiry("a", ttl=5),
        ]
        for call in calls:
            with pytest.raises(firndb.InvalidArgumentError, match="reading only"):
                call()
        assert dict(store) == {b"a": b"1"} and store.setdefault("a", "2") == b"1"


def test_every_call_of_a_closed_store_raises(store) -> None:
    store["a"] = "1"
    items, batch = iter(store.items()), store.batch()
    store.close()
    calls = [
        lambda: store["a"],
        lambda: store.get("a"),
        lambda: store.get_many(["a"]),
        lambda: "a" in store,
        lambda: len(store),
        lambda: iter(store),
        lambda: list(store.items()),
        lambda: store.put("a", "2"),
        lambda: store.__setitem__("a", "2"),
        lambda: store.__delitem__("a"),
        lambda: store.put_many({}),
        lambda: store.update("a", lambda old: old),
        lambda: store.update({}),
        lambda: store.batch(),
        lambda: batch.commit(),
        lambda: store.snapshot(),
        lambda: store.clear(),
        lambda: store.popitem(),
        lambda: store.expiry("a"),
        lambda: store.set_expiry("a", None),
        lambda: store.refresh(),
        lambda: store.promote(),
        lambda: store.sync(),
        lambda: store.compact(),
        lambda: store.stats(),
        lambda: store.verify(),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="the store is closed"):
            call()
    assert store.closed and "closed" in repr(store) and "closed" in store._repr_html_()
    assert list(items) == [(b"a", b"1")]  # An iteration keeps what it needs.


def test_views(store) -> None:
    store.update({"a": "1", "b": "2"}, c="3")
    assert store.keys() == {b"a", b"b", b"c"}
    assert store.keys() & {b"a", b"z"} == {b"a"}
    assert store.keys() - {b"a"} == {b"b", b"c"}
    assert sorted(store.values()) == [b"1", b"2", b"3"] and b"2" in store.values()
    assert store.items() == {(b"a", b"1"), (b"b", b"2"), (b"c", b"3")}
    assert (b"a", b"1") in store.items() and (b"a", b"2") not in store.items()
    assert len(store.items()) == len(store.keys()) == len(store.values()) == 3
    for view in (store.keys(), store.values(), store.items()):
        assert "3 keys" in repr(view)
    assert store == {b"a": b"1", b"b": b"2", b"c": b"3"} and store != {}


def test_an_iteration_shows_the_store_as_it_was(store) -> None:
    store.put_many((str(n), "old") for n in range(3000))
    items = iter(store.items())
    first = next(items)
    store.put_many((str(n), "new") for n in range(6000))
    for n in range(0, 3000, 2):
        del store[str(n)]
    everything = dict([first, *items])
    assert len(everything) == 3000 and set(everything.values()) == {b"old"}


def test_pop_setdefault_popitem_and_clear(store) -> None:
    store.update(a="1", b="2")
    assert store.pop("a") == b"1" and "a" not in store
    with pytest.raises(KeyError, match="a"):
        store.pop("a")
    assert store.pop("a", 5) == 5 and store.pop("a", None) is None
    with pytest.raises(TypeError):
        store.pop("a", 1, 2)
    assert store.setdefault("b", "x") == b"2" and store.setdefault("c", "x") == b"x" == store["c"]
    popped = dict([store.popitem(), store.popitem()])
    assert popped == {b"b": b"2", b"c": b"x"} and len(store) == 0
    with pytest.raises(KeyError, match="empty"):
        store.popitem()
    store.put_many((str(n), str(n)) for n in range(2500))
    popped = dict(store.popitem() for _ in range(500))
    store["back"] = "again"  # May be in a place that was passed.
    popped.update(store.popitem() for _ in range(2001))
    assert len(popped) == 2501 and len(store) == 0
    store.put_many((str(n), str(n)) for n in range(2500))
    store.clear()
    assert len(store) == 0 and list(store) == []


def test_delete_says_whether_the_key_was_there(store) -> None:
    store["a"] = "1"
    assert store.delete("a") is True and store.delete("a", sync=True) is False
    with pytest.raises(KeyError) as caught:
        del store["a"]
    assert caught.value.args == ("a",)


def test_compare_and_set_and_append(store) -> None:
    assert store.compare_and_set("k", None, "1")
    assert not store.compare_and_set("k", None, "2")
    assert store.compare_and_set("k", b"1", "2", ttl=100)
    assert store["k"] == b"2" and store.expiry("k") is not None
    assert store.append("k", "34") == 3 and store["k"] == b"234"
    assert store.expiry("k") is not None  # Kept.
    assert store.compare_and_set("k", "234", None) and "k" not in store
    assert store.append("new", b"x", sync=True) == 1


def test_update_calls_a_function(store) -> None:
    assert store.update("n", lambda old: str(int(old or 0) + 1)) == "1"
    assert store.update("n", lambda old: b"%d" % (int(old) + 1)) == b"2"
    assert store.update("n", lambda old: None) is None and "n" not in store
    assert store.update("n", lambda old: None) is None
    with pytest.raises(ZeroDivisionError):
        store.update("n", lambda old: 1 / 0)
    store.put("n", "1", ttl=1000)
    expiry = store.expiry("n")
    store.update("n", lambda old: old + b"!")
    assert store["n"] == b"1!" and store.expiry("n") == expiry
    later = datetime.now(UTC) + timedelta(days=1)
    store.update("n", lambda old: old, expiry=later)
    assert abs(store.expiry("n") - later) < timedelta(milliseconds=2)


def test_the_function_of_an_update_may_use_the_store(store) -> None:
    seen = []

    def change(old):
        seen.append(old)
        if len(seen) == 1:
            store["k"] = "other"  # So that it is called again.
            store.update("inner", lambda old: "x")
        return (old or b"") + b"+"

    store["k"] = "1"
    assert store.update("k", change) == b"other+"
    assert seen == [b"1", b"other"] and store["k"] == b"other+" and store["inner"] == b"x"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("k",), {}, "a key and a function"),
        ((b"k",), {}, "a key and a function"),
        (("k", 5), {}, "change is a function of the old value, not int"),
        (("k", len), {"other": 1}, "other"),
        ((5,), {}, "not int"),
    ],
)
def test_wrong_arguments_of_update(store, arguments, options, message) -> None:
    with pytest.raises(TypeError, match=message):
        store.update(*arguments, **options)
    assert len(store) == 0


class Keyed:
    """Like the mappings that `dict.update` takes."""

    def keys(self):
        return ["a", "b"]

    def __getitem__(self, key):
        return {"a": "1", "b": b"2"}[key]


ITEMS = {
    "dict": {"a": "1", b"b": b"2"},
    "pairs": [("a", "1"), ["b", "2"]],
    "generator": lambda: ((k, v) for k, v in [("a", "1"), ("b", "2")]),
    "mapping": Keyed(),
    "pyarrow": pa.table({"value": [b"1", b"2"], "other": [1, 2], "key": ["a", "b"]}),
    "batches": lambda: pa.table({"key": ["a", "b"], "value": ["1", "2"]}).to_reader(1),
    "views": pa.table({"key": pa.array(["a", "b"], pa.string_view()), "value": ["1", "2"]}),
    "dictionary": pa.table({"key": pa.array(["a", "b"]).dictionary_encode(), "value": ["1", "2"]}),
    "polars": pl.DataFrame({"key": ["a", "b"], "value": ["1", "2"]}),
    "pandas": pd.DataFrame({"key": ["a", "b"], "value": ["1", "2"]}),
}


@pytest.mark.parametrize("items", ITEMS.values(), ids=ITEMS)
@pytest.mark.parametrize("options", [{}, {"sync": True}, {"ttl": 100}])
def test_put_many(store, items, options) -> None:
    assert store.put_many(items() if callable(items) else items, **options) == 2
    assert store == {b"a": b"1", b"b": b"2"}
    assert (store.expiry("a") is not None) == ("ttl" in options)


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        (5, TypeError, "a mapping, an iterable of pairs or an Arrow table, not int"),
        ([("a", "1"), ("b",)], ValueError, "item 1 is not a pair"),
        ([("a", "1", "2")], ValueError, "item 0 is not a pair"),
        (["ab"], ValueError, "item 0 is not a pair"),
        ([5], ValueError, "item 0 is not a pair"),
        ([("a", 5)], TypeError, "bytes or str, not int"),
        (pa.table({"k": ["a"], "value": ["b"]}), ValueError, "no column key; .* k, value"),
        (pa.table({"key": ["a"], "value": [5]}), TypeError, "Int64"),
        (pa.table({"key": ["a", None], "value": ["b", "c"]}), ValueError, "key of row 1 is null"),
        (pa.table({"key": ["a"], "value": pa.nulls(1, "utf8")}), ValueError, "value of row 0"),
        (pa.array(["a"]), TypeError, "columns key and value"),
    ],
)
def test_wrong_items(store, items, error, message) -> None:
    with pytest.raises(error, match=message):
        store.put_many(items)


def test_put_many_in_several_steps(store) -> None:
    reports = []
    items = ((str(n), "x" * 500) for n in range(20_000))
    assert store.put_many(items, progress=lambda *report: reports.append(report)) == 20_000
    assert len(store) == 20_000 and reports[-1] == (20_000, 20_000)

    def broken():
        yield from ((f"more {n}", "") for n in range(5000))
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        store.put_many(broken())
    assert 20_000 < len(store) <= 25_000

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.put_many({"a": "b"}, progress=stop)


def test_a_batch_is_written_as_a_whole_or_not_at_all(store) -> None:
    store["old"] = "1"
    with store.batch() as batch:
        batch["a"] = "1"
        batch.put("b", "2", ttl=1000)
        batch.put("c", "3", expiry=datetime.now(UTC) + timedelta(days=1))
        batch.update({"d": "4"})
        del batch["old"]
        batch.delete("absent")
        assert len(batch) == 6 and batch and len(store) == 1
        assert repr(batch) == "<firndb.Batch of 6 changes>"
    assert sorted(store) == [b"a", b"b", b"c", b"d"] and "written" in repr(batch)
    assert store.expiry("a") is None and store.expiry("b") and store.expiry("c")
    for call in (batch.commit, batch.clear, lambda: batch.put("x", "y")):
        with pytest.raises(ValueError, match="written or discarded"):
            call()
    with pytest.raises(ZeroDivisionError), store.batch() as batch:
        batch["e"] = "5"
        1 / 0
    assert "e" not in store
    batch = store.batch(sync=True)
    batch["f"] = "6"
    batch.commit()
    assert store["f"] == b"6"
    with store.batch() as batch:
        batch["g"] = "7"
        batch.commit()
    with store.batch() as batch:
        batch["h"] = "8"
        batch.clear()
    assert store["g"] == b"7" and "h" not in store


def test_a_batch_that_cannot_be_written_keeps_its_changes(store) -> None:
    batch = store.batch()
    batch["a"] = "1"
    batch[b"k" * 70_000] = "2"
    with pytest.raises(firndb.InvalidArgumentError):
        batch.commit()
    assert len(batch) == 2 and len(store) == 0
    with pytest.raises(ValueError, match="not both"):
        batch.put("a", "1", ttl=1, expiry=datetime.now(UTC))


def test_a_snapshot_does_not_change(store) -> None:
    store.update(a="1", b="2", c="3")
    store.put("d", "4", ttl=1000)
    with store.snapshot() as snapshot:
        store.update(a="x", e="y")
        del store["b"]
        assert snapshot == {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"}
        assert (snapshot["a"], snapshot.get("e"), snapshot.get("e", 5)) == (b"1", None, 5)
        assert "b" in snapshot and "e" not in snapshot and len(snapshot) == 4
        assert snapshot.get_many(["b", "e", "a"]) == [b"2", None, b"1"]
        assert snapshot.get_many(["b", "e"], arrow=True).to_pylist() == [b"2", None]
        assert snapshot.get_many(pa.array(["b", None])) == [b"2", None]
        assert sorted(snapshot.values()) == [b"1", b"2", b"3", b"4"]
        assert snapshot.keys() == {b"a", b"b", b"c", b"d"}
        assert snapshot.expiry("d") == store.expiry("d") and snapshot.expiry("a") is None
        for key in ("e", 5):
            with pytest.raises((KeyError, TypeError)):
                snapshot[key]
        with pytest.raises(KeyError):
            snapshot.expiry("e")
        items = iter(snapshot.items())
        with pytest.raises(TypeError):
            pickle.dumps(snapshot)
    assert len(list(items)) == 4
    with pytest.raises(ValueError, match="the snapshot is closed"):
        snapshot["a"]
    snapshot.close()
    assert snapshot.closed and "closed" in repr(snapshot)


def test_a_snapshot_may_be_used_after_its_store_is_closed(path) -> None:
    with firndb.LogStore(path) as store:
        store["a"] = "1"
        snapshot = store.snapshot()
    assert dict(snapshot) == {b"a": b"1"}


def test_times_of_expiry(store) -> None:
    store.put("a", "1", ttl=0.0)
    assert "a" not in store and store.get("a") is None
    with pytest.raises(KeyError):
        store.expiry("a")
    store.put("b", "1", ttl=timedelta(hours=1))
    left = store.expiry("b") - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    time = datetime(2100, 1, 2, 3, 4, 5, 678_000, tzinfo=timezone(timedelta(hours=5)))
    store.put("c", "1", expiry=time)
    assert store.expiry("c") == time and store.expiry("c").tzinfo is UTC
    assert store.set_expiry("c", time + timedelta(days=1)) and store["c"] == b"1"
    assert store.expiry("c") == time + timedelta(days=1)
    assert store.set_expiry("c", None) and store.expiry("c") is None
    assert store.set_expiry("c", ttl=100) and store.expiry("c") is not None
    assert store.set_expiry("c", datetime(1960, 1, 1, tzinfo=UTC)) and "c" not in store
    assert store.set_expiry("c", None) is False
    store.put("d", "1", ttl=1e15)
    assert store.expiry("d") == datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ttl": -1}, ValueError, "0 or more"),
        ({"ttl": float("nan")}, ValueError, "0 or more"),
        ({"ttl": float("inf")}, ValueError, "0 or more"),
        ({"ttl": timedelta(seconds=-1)}, ValueError, "0 or more"),
        ({"ttl": "5"}, TypeError, "seconds or a timedelta, not str"),
        ({"expiry": datetime(2100, 1, 1)}, ValueError, "without a time zone"),
        ({"expiry": 5}, TypeError, "a datetime, not int"),
        ({"expiry": datetime(2100, 1, 1, tzinfo=UTC), "ttl": 5}, ValueError, "not both"),
        ({"ttl": 1, "sync": "yes"}, TypeError, "sync"),
    ],
)
def test_wrong_times_of_expiry(store, options, error, message) -> None:
    calls = [
        lambda: store.put("a", "1", **options),
        lambda: store.put_many({"a": "1"}, **options),
        lambda: store.update("a", lambda old: "1", **options),
        lambda: store.append("a", "1", **options),
        lambda: store.set_expiry("a", **options),
    ]
    for call in calls:
        with pytest.raises(error, match=message):
            call()
    with pytest.raises(TypeError, match="give expiry"):
        store.set_expiry("a")


def test_a_reader_sees_later_writes_after_a_refresh(path) -> None:
    with firndb.LogStore(path) as store, firndb.LogStore(path, "r") as reader:
        store["a"] = "1"
        assert "a" not in reader and reader.refresh() is True and reader["a"] == b"1"
        assert reader.refresh() is False and store.refresh() is False


def test_a_reader_takes_over_from_the_writer(path) -> None:
    store, reader = firndb.LogStore(path), firndb.LogStore(path, "r")
    store["a"] = "1"
    with pytest.raises(firndb.LockedError):
        reader.promote()
    assert reader.read_only
    store.close()
    reader.promote()
    reader["b"] = "2"
    reader.put_many({"c": "3"})
    assert not reader.read_only and dict(reader.items()) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    reader.promote()
    with pytest.raises(firndb.LockedError):
        firndb.LogStore(path)
    reader.close()
    with firndb.LogStore(path, "w") as store:
        assert len(store) == 3


def test_statistics(store) -> None:
    store.update(a="1", b="2")
    del store["a"]
    stats = store.stats()
    assert isinstance(stats, firndb.LogStats)
    assert (stats.keys, stats.puts, stats.deletes, stats.write_amplification) == (1, 2, 1, 1.0)
    assert stats.append_mode in ("Map", "Write") and stats.segment_stats[0]["number"] >= 1
    annotated = set(firndb.LogStats.__annotations__)
    assert annotated == set(stats.as_dict()), "the class documents exactly what there is"
    assert "keys=1" in repr(stats) and "<td>keys</td><td>1</td>" in stats._repr_html_()
    assert "1 keys" in repr(store) and "<td>keys</td><td>1</td>" in store._repr_html_()


def test_names_are_escaped_in_notebooks(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "<script>") as store:
        assert "<script>" not in store._repr_html_() and "&lt;script&gt;" in store._repr_html_()


def test_compaction_verification_and_sync(path) -> None:
    with firndb.LogStore(path, segment_bytes=4096) as store:
        store.pause_compaction()
        for n in range(2000):
            store[f"{n % 50}"] = "x" * 50
        store.sync()
        assert store.compact() > 0
        store.resume_compaction()
        checked = store.verify()
        assert checked.files > 0 and checked.records >= 50 and checked.bytes > 0
        for threshold in (-0.1, 1.1, float("nan")):
            with pytest.raises(ValueError, match="0 to 1"):
                store.compact(threshold)


def test_backup_restore_and_repair(tmp_path) -> None:
    places = [tmp_path / name for name in ("store", "backup", "restored", "repaired")]
    store_path, backup_path, restored_path, repaired_path = places
    with firndb.LogStore(store_path) as store:
        store.update(a="1", b="2")
        made = store.backup(backup_path)
        assert made.segments >= 1 and made.kept == 0
        assert store.backup(backup_path).kept >= 1
        with pytest.raises(firndb.AlreadyExistsError):
            store.backup(tmp_path)
    assert firndb.LogStore.restore(backup_path, restored_path).keys == 2
    with pytest.raises(firndb.AlreadyExistsError):
        firndb.LogStore.restore(backup_path, restored_path)
    with firndb.LogStore(restored_path, "r") as store:
        assert store == {b"a": b"1", b"b": b"2"}
    segment = min(restored_path.glob("segment-*.log"))
    data = bytearray(segment.read_bytes())
    data[data.index(b"b2")] ^= 1
    segment.chmod(0o644)
    segment.write_bytes(data)
    with firndb.LogStore(restored_path, "r") as store, pytest.raises(firndb.CorruptError) as caught:
        store.verify()
    assert caught.value.path.endswith(".log") and caught.value.offset > 0
    assert firndb.LogStore.repair(restored_path, None).keys == 1 and not repaired_path.exists()
    found = firndb.LogStore.repair(restored_path, repaired_path, progress=False)
    assert found.keys == 1 and found.dropped[0][0].endswith(".log")
    with firndb.LogStore(repaired_path, "r") as store:
        assert store == {b"a": b"1"}


def test_readers_can_be_pickled_and_writers_not(path, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    with firndb.LogStore("store", decode=True) as store:
        store["a"] = "1"
        with pytest.raises(TypeError, match="open it with mode 'r'"):
            pickle.dumps(store)
        for copier in (copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="backup"):
                copier(store)
    reader = firndb.LogStore("store", "r", decode=True, access="buffered")
    data = pickle.dumps(reader)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    with pickle.loads(data) as other:
        assert (type(other), other["a"], other.path) == (firndb.LogStore, "1", reader.path)
        assert other.read_only and other.decode and other._access == "buffered"
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        pickle.dumps(reader)


def test_a_store_is_closed_when_it_is_collected(path) -> None:
    store = firndb.LogStore(path)
    store["a"] = "1"
    del store
    with firndb.LogStore(path, "w") as store:
        assert store["a"] == b"1"


def test_paths(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with firndb.LogStore("a") as store:
        assert os.fspath(store.path) == str(tmp_path / "a")
    with pytest.raises(TypeError):
        firndb.LogStore(5)
    with pytest.raises(TypeError):
        firndb.LogStore(b"bytes")
    (tmp_path / "file").write_text("x")
    with pytest.raises(firndb.FirnError, match="file"):
        firndb.LogStore("file")


def test_a_subclass_may_have_attributes(path) -> None:
    class Mine(firndb.LogStore):
        pass

    with Mine(path) as store:
        store.attribute = 5
        store["a"] = "1"
        assert store.attribute == 5 and isinstance(store, Mine)


def test_random_changes_agree_with_a_dictionary(store) -> None:
    import random

    random.seed(7)
    model: dict[bytes, bytes] = {}
    for step in itertools.count():
        if step == 3000:
            break
        key, value = b"%d" % random.randrange(50), b"%d" % step
        match random.randrange(6):
            case 0 | 1:
                store[key] = model[key] = value
            case 2:
                assert store.pop(key, None) == model.pop(key, None)
            case 3:
                assert store.setdefault(key, value) == model.setdefault(key, value)
            case 4:
                assert store.get(key) == model.get(key)
            case 5:
                model[key] = model.get(key, b"") + value
                assert store.append(key, value) == len(model[key])
        if step % 500 == 0:
            assert store == model and len(store) == len(model)
    assert dict(store) == model
