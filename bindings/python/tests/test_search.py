"""Collections: opening, queries, changes."""

import multiprocessing
import pickle
import shutil
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import firndb
import pytest
from firndb import F

ROWS = [
    {"id": 1, "city": "Oslo", "kind": "flat", "price": 12.5, "tags": ["new", "sea"]},
    {"id": 2, "city": "Bergen", "kind": "house", "price": 9.0, "tags": []},
    {"id": 3, "city": "Oslo", "kind": "room", "price": None, "tags": ["sea"]},
    {"id": 4, "city": "Bergen", "kind": "flat", "price": 15.0, "tags": ["new"]},
]


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[firndb.Collection]:
    with firndb.build_collection(ROWS, path=tmp_path / "rooms", partition_by="city") as rooms:
        yield rooms


def ids(hits: Any) -> list[int]:
    return [row["id"] for row in hits]


def test_a_collection_describes_itself(rooms: firndb.Collection, tmp_path: Path) -> None:
    assert len(rooms) == 4 and rooms and rooms.path == str(tmp_path / "rooms")
    assert [tuple(part)[:2] for part in rooms.partitions()] == [("Bergen", 2), ("Oslo", 2)]
    assert all(part.file_bytes > 100 for part in rooms.partitions())
    assert list(rooms.schema) == ["id", "city", "kind", "price", "tags"]
    assert rooms.schema["tags"].multi and rooms.schema["price"].nullable
    assert "4 documents" in repr(rooms) and "<td>price</td>" in rooms._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [2, 4, 1, 3]),
        ({"query": "price < 14 order by price limit 1"}, [2]),
        ({"query": "price < 14 order by price limit 1", "limit": 2}, [2, 1]),
        ({"query": F.price < 14, "order_by": F.price.desc()}, [1, 2]),
        ({"query": "all", "order_by": "city, price desc"}, [4, 2, 1, 3]),
        ({"query": "all", "order_by": [F.city.desc(), "price"]}, [1, 3, 2, 4]),
        ({"query": F.tags == "new", "order_by": F.id, "skip": 1}, [4]),
        ({"query": F.price.exists(), "order_by": "id", "limit": 0}, []),
    ],
)
def test_searches(rooms: firndb.Collection, arguments: Any, expected: list[int]) -> None:
    assert ids(rooms.search(**arguments)) == expected
    assert ids(rooms.reader().search(**arguments)) == expected


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"query": "price < 14 adn id = 1"}, ValueError, "price < 14 adn id = 1\n           ^^^"),
        ({"query": "prize < 14"}, firndb.InvalidArgumentError, "no field `prize`"),
        ({"query": 5}, TypeError, "not int"),
        ({"query": b"all"}, TypeError, "not bytes"),
        ({"fields": ["prize"]}, firndb.InvalidArgumentError, "no field `prize`"),
        ({"fields": 3}, TypeError, "not int"),
        ({"fields": [3]}, TypeError, "not int"),
        ({"order_by": 3}, TypeError, "not int"),
        ({"order_by": [3]}, TypeError, "not int"),
        ({"order_by": "tags"}, firndb.InvalidArgumentError, "not sortable"),
        ({"limit": -1}, ValueError, "limit"),
        ({"limit": "1"}, TypeError, ""),
        ({"skip": -1}, ValueError, "skip"),
        ({"timeout": -1}, ValueError, "timeout"),
        ({"timeout": "1"}, TypeError, "timeout"),
        ({"timeout": float("nan")}, ValueError, "timeout"),
        ({"after": "x"}, firndb.InvalidArgumentError, "page token"),
    ],
)
def test_wrong_searches(
    rooms: firndb.Collection, arguments: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        rooms.search(**arguments)
    assert message in str(caught.value)


def test_timeouts_are_timeout_errors(rooms: firndb.Collection) -> None:
    for timeout in (0, timedelta()):
        with pytest.raises(TimeoutError) as caught:
            rooms.search("price < 10", timeout=timeout)
        assert isinstance(caught.value, firndb.CancelledError)
    assert rooms.count("price < 10", timeout=timedelta(minutes=1)) == 1
    assert rooms.count(timeout=1e300) == 4
    with pytest.raises(TimeoutError):
        rooms.count("price < 10 and kind = 'flat'", timeout=0)


def test_counts_facets_groups_and_aggregates(rooms: firndb.Collection) -> None:
    assert rooms.count() == 4 and rooms.count(F.price > 10) == 2
    with pytest.raises(firndb.InvalidArgumentError):
        rooms.count("price > 10 limit 1")
    facets = rooms.facets(None, ["kind", F.tags])
    assert facets["kind"].as_dict() == {"flat": 2, "house": 1, "room": 1}
    assert (facets["tags"].distinct, facets["tags"].missing) == (2, 1)
    assert list(facets["tags"]) == [("new", 2), ("sea", 2)] and facets["tags"][0] == ("new", 2)
    assert len(rooms.facets("all", "kind", top=1)["kind"]) == 1
    assert rooms.facets("kind = 'flat'", "kind")["kind"].as_dict() == {"flat": 2}
    assert len(rooms.facets("kind = 'flat'", "kind", disjunctive=True)["kind"]) == 3
    groups = rooms.group(None, "city", aggregates=["price", "id"])
    assert [(group.key, group.count) for group in groups] == [(("Bergen",), 2), (("Oslo",), 2)]
    assert groups[0].aggregates["price"] == firndb.Aggregate(2, 9.0, 15.0, 24.0, 12.0)
    assert groups[1].aggregates["price"] == firndb.Aggregate(1, 12.5, 12.5, 12.5, 12.5)
    assert groups[0].aggregates["id"].sum == 6
    [largest] = rooms.group("all", ("kind", "city"), top=1)
    assert largest.count == 1 and len(largest.key) == 2
    assert rooms.aggregate("city = 'Oslo'", "price").max == 12.5
    empty = rooms.aggregate("id > 100", F.price)
    assert empty == firndb.Aggregate(0, None, None, None, None)
    assert rooms.aggregate(None, "city").min == "Bergen"
    with pytest.raises(firndb.InvalidArgumentError, match="at most two"):
        rooms.group(None, ["kind", "city", "id"])
    assert "<td>flat</td>" in facets["kind"]._repr_html_()


def test_sums_beyond_64_bits_are_exact(tmp_path: Path) -> None:
    rows = [{"n": 2**63 - 1}] * 4
    collection = firndb.build_collection(rows, path=tmp_path / "n")
    assert collection.aggregate(None, "n").sum == 4 * (2**63 - 1)


def test_explanations_stats_and_verification(rooms: firndb.Collection) -> None:
    explained = rooms.explain("price < 14", order_by="price", limit=2)
    assert explained.hits == 2 and explained.partitions == 2 and "filter: price" in str(explained)
    assert explained._repr_html_().startswith("<pre>")
    stats = rooms.stats()
    assert (stats.documents, stats.partitions) == (4, 2)
    assert stats.fields["price"].as_dict() == {"distinct": 3, "missing": 1, "min": 9.0, "max": 15.0}
    assert stats.fields["tags"].min is None and stats.fields["tags"].distinct == 2
    assert stats.file_bytes == sum(part.file_bytes for part in rooms.partitions())
    assert "<td>Oslo</td>" in stats._repr_html_()
    seen: list[tuple[int, int | None]] = []
    verified = rooms.verify(progress=lambda done, total: seen.append((done, total)))
    assert (verified.files, verified.bytes, verified.records) == (2, stats.file_bytes, 4)
    assert seen[-1] == (stats.file_bytes, stats.file_bytes)
    rooms.warm()
    rooms.reader().warm()


def test_damage_is_an_error(rooms: firndb.Collection, tmp_path: Path) -> None:
    [file] = (tmp_path / "rooms").glob("Oslo*.part.firn")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    copy = tmp_path / "damaged.part.firn"
    copy.write_bytes(data)
    with pytest.raises(firndb.CorruptError, match="damaged"):
        firndb.Collection(copy).verify()


def test_an_exception_of_the_progress_function_ends_a_long_call(rooms: firndb.Collection) -> None:
    def stop(done: int, total: int | None) -> None:
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        rooms.verify(progress=stop)


def test_scans_read_batches_of_one_version(tmp_path: Path) -> None:
    rows = [{"n": n, "even": n % 2 == 0} for n in range(1000)]
    collection = firndb.build_collection(rows, path=tmp_path / "n", partitions=3)
    scan = collection.scan(F.even, "n", order_by=F.n.desc(), batch_rows=64)
    first = next(scan)
    with collection.change() as change:
        change.clear()
    found = ids_of_scan = [row["n"] for hits in [first, *scan] for row in hits]
    assert found == list(range(998, -1, -2)) and len(ids_of_scan) == 500
    assert list(collection.scan()) == []
    with pytest.raises(ValueError, match="batch_rows"):
        collection.scan(batch_rows=0)
    with pytest.raises(firndb.InvalidArgumentError):
        collection.scan("nonsense")


def test_readers_are_immutable(rooms: firndb.Collection) -> None:
    reader, version = rooms.reader(), rooms.version
    with rooms.change() as change:
        change.remove("Oslo")
    assert (len(reader), len(rooms), rooms.version) == (4, 2, version + 1)
    assert reader.count("city = 'Oslo'") == 2 and rooms.count("city = 'Oslo'") == 0
    assert ids(reader.with_partitions(["Oslo"]).search()) == [1, 3]
    with pytest.raises(firndb.NotFoundError):
        reader.with_partitions(["none"])
    assert "4 documents" in repr(reader)


def test_other_handles_refresh(rooms: firndb.Collection) -> None:
    other = firndb.Collection(rooms.path)
    assert not other.refresh()
    with rooms.change() as change:
        change.put("Voss", [{**ROWS[0], "id": 9, "city": "Voss"}])
    assert len(other) == 4 and other.refresh() and len(other) == 5
    assert other.version == rooms.version


def test_closed_collections_raise(rooms: firndb.Collection) -> None:
    change, reader = rooms.change(), rooms.reader()
    assert not rooms.closed
    rooms.close()
    rooms.close()
    assert rooms.closed and "closed" in repr(rooms) and "closed" in rooms._repr_html_()
    for call in (rooms.search, rooms.count, rooms.reader, rooms.refresh, rooms.stats, rooms.change):
        with pytest.raises(ValueError, match="the collection is closed"):
            call()
    assert len(reader) == 4
    change.put("Oslo", ROWS[:1])
    change.commit()


def test_partition_files_are_collections(rooms: firndb.Collection, tmp_path: Path) -> None:
    files = sorted((tmp_path / "rooms").glob("*.part.firn"))
    both, one = firndb.Collection(files), firndb.Collection(files[0], threads=2)
    assert (len(both), len(one), both.version) == (4, 2, 0) and not both.refresh()
    assert ids(both.search("all order by id")) == [1, 2, 3, 4]
    assert len(pickle.loads(pickle.dumps(both))) == 4
    for call in (both.change, both.compact):
        with pytest.raises(ValueError, match="partition files cannot be changed"):
            call()
    with pytest.raises(firndb.InvalidArgumentError, match="twice"):
        firndb.Collection([files[0], files[0]])


@pytest.mark.parametrize("path", ["absent", "empty", "file"])
def test_what_is_no_collection(path: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x" * 5000)
    with pytest.raises(firndb.FirnError, match=path):
        firndb.Collection(tmp_path / path)


@pytest.mark.parametrize("path", [5, None, [5]])
def test_paths_of_wrong_types(path: Any) -> None:
    with pytest.raises(TypeError):
        firndb.Collection(path)


def test_changes_are_atomic(rooms: firndb.Collection) -> None:
    with rooms.change() as change:
        change.remove("Bergen")
        change.put("Oslo", [{**ROWS[0], "id": 7}])
        change.put_by(F.city, [{**ROWS[1], "id": 8, "city": "New York"}])
        assert len(rooms) == 4
    assert [part.name for part in rooms.partitions()] == ["New_20York", "Oslo"]
    assert ids(rooms.search("all order by id")) == [7, 8]
    with pytest.raises(RuntimeError, match="stop"), rooms.change() as change:
        change.clear()
        raise RuntimeError("stop")
    with pytest.raises(firndb.NotFoundError, match="none"), rooms.change() as change:
        change.clear()
        change.remove("none")
    with pytest.raises(firndb.InvalidArgumentError, match="name"), rooms.change() as change:
        change.put("../x", ROWS)
    assert len(rooms) == 2
    for call in (change.commit, change.clear, lambda: change.remove("x")):
        with pytest.raises(ValueError, match="the change has ended"):
            call()
    change.discard()


def test_changes_refuse_what_does_not_fit(rooms: firndb.Collection) -> None:
    change = rooms.change()
    with pytest.raises(firndb.InvalidArgumentError, match=r"rows\[1\]: field `price`"):
        change.put("x", [ROWS[0], {**ROWS[1], "price": "cheap"}])
    with pytest.raises(ValueError, match="there are no rows"):
        change.put("x", [])
    with pytest.raises(firndb.InvalidArgumentError, match="no field `country`"):
        change.put_by("country", ROWS)
    change.put("x", [{"id": 1, "other": 1.5}], {"id": "i64 filterable", "other": "f64"})
    with pytest.raises(firndb.InvalidArgumentError, match="`id`"):
        change.commit()
    assert len(rooms) == 4


def test_merging_and_compacting(tmp_path: Path) -> None:
    rows = [{"n": n} for n in range(100)]
    collection = firndb.build_collection(rows, path=tmp_path / "n", partitions=8)
    [planned] = collection.compact(unchanged_for=0, dry_run=True)
    assert planned.documents == 100 and len(collection.partitions()) == 8
    with collection.change() as change:
        change.merge(["00000", "00001"], "first")
    assert len(collection.partitions()) == 7
    [merged] = collection.compact(small=1000, at_least=2, unchanged_for=timedelta())
    assert merged.into in [part.name for part in collection.partitions()]
    assert merged.documents == 100 and len(collection) == 100
    assert collection.compact() == []


def count(collection: firndb.Collection) -> int:
    return collection.count("price > 10")


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_handles_are_pickled_as_their_paths(rooms: firndb.Collection, method: str) -> None:
    context = multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        assert pool.apply(count, (rooms,)) == 2
    copy = pickle.loads(pickle.dumps(rooms))
    assert copy.path == rooms.path and len(copy) == 4
    with pytest.raises(TypeError, match="pickle the collection"):
        pickle.dumps(rooms.reader())
    with pytest.raises(TypeError):
        pickle.dumps(rooms.change())


def child(collection: firndb.Collection, change: firndb.Change) -> list[str]:
    """What a forked child can do with the handles of its parent."""
    done = [f"count {collection.count()}"]
    for call in (change.commit, lambda: change.put("x", ROWS), collection.change):
        try:
            call()
            done.append("changed")
        except firndb.FailedError as error:
            done.append(str(error).partition(":")[0])
    collection.close()
    with firndb.Collection(collection.path) as again, again.change() as own:
        own.put("child", ROWS[:1])
    return done


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_forked_children_read_and_do_not_change(rooms: firndb.Collection) -> None:
    change = rooms.change()
    rows = ({**ROWS[n % 4], "kind": f"{n:030}"} for n in range(40_000))
    change.put("large", rows, memory_bytes=1 << 20)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=lambda: queue.put(child(rooms, change)))
    process.start()
    refused = "the process was forked since the collection was opened"
    assert queue.get() == ["count 4", refused, refused, refused]
    process.join()
    # The parent goes on, and its temporary files are still there.
    change.commit()
    names = [part.name for part in rooms.partitions()]
    assert "child" in names and "large.2" in names and len(rooms) == 40_005


def test_queries_run_in_threads_while_handles_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "n"
    firndb.build_collection([{"n": n} for n in range(2000)], path=path).close()
    failures: list[BaseException] = []

    def work(collection: firndb.Collection) -> None:
        try:
            for _ in range(50):
                hits = collection.search(F.n >= 1990, order_by=F.n)
                assert [row["n"] for row in hits] == list(range(1990, 2000))
        except ValueError as error:
            if "closed" not in str(error):
                failures.append(error)
        except BaseException as error:
            failures.append(error)

    for _ in range(10):
        collection = firndb.Collection(path)
        threads = [threading.Thread(target=work, args=(collection,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.01)
        collection.close()
        for thread in threads:
            thread.join()
    assert failures == []


def test_moved_collections_are_reported(rooms: firndb.Collection, tmp_path: Path) -> None:
    change = rooms.change()
    change.put("Oslo", ROWS[:1])
    shutil.rmtree(tmp_path / "rooms")
    with pytest.raises(firndb.FirnError):
        change.commit()
    assert len(rooms) == 4 and ids(rooms.search("id = 1")) == [1]
