"""Indexers: feeds, single changes, publishing."""

import datetime
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import firndb
import pytest

SCHEMA = firndb.Schema.from_toml(
    """
[fields]
city = "string full"
price = "f64 full"
seen = "timestamp full nullable"
tags = "string multi filterable stored nullable"
"""
)


def room(city: str, price: float = 1.0) -> dict[str, object]:
    return {"city": city, "price": price}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[firndb.Indexer]:
    with firndb.Indexer(tmp_path / "index", SCHEMA, partition_by="city") as index:
        yield index


def test_a_feed_adds_updates_and_removes(index) -> None:
    with index.feed("rooms") as feed:
        assert feed.source == "rooms"
        feed.add("1", room("Oslo"))
        feed.add(b"2", room("Bergen"), payload=b"{}")
        feed.add("2", room("Bergen"), payload="last")
        with pytest.raises(ValueError, match="has not been applied"):
            feed.applied  # noqa: B018
    assert feed.applied == firndb.Applied(2, 0, 0, 0, 1, ["Bergen", "Oslo"])
    published = index.publish()
    assert published.rebuilt == ["Bergen", "Oslo"] and published.documents == 2
    applied = index.apply("rooms", {"1": room("Oslo", 2.0), "3": room("Oslo")})
    assert (applied.added, applied.updated, applied.removed) == (1, 1, 1)
    published = index.publish()
    assert (published.rebuilt, published.removed) == (["Oslo"], ["Bergen"])
    status = index.status()
    assert (status.sources, status.documents, status.dirty) == ({"rooms": 2}, 2, [])
    assert status.version == published.version and status.log_bytes > 0
    assert "documents=2" in repr(status) and "<table>" in status._repr_html_()


def test_an_exception_in_a_feed_leaves_the_index_as_it_was(index) -> None:
    index.apply("rooms", [("1", room("Oslo")), ("2", room("Oslo"))])
    index.publish()
    before = index.status()
    with pytest.raises(ZeroDivisionError), index.feed("rooms") as feed:
        # More than the feed keeps in memory.
        feed.add_many((str(n), room("Bergen" * 100, n)) for n in range(10_000))
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="ended"):
        feed.add("3", room("Oslo"))
    with pytest.raises(ValueError, match="ended"):
        feed.finish()
    after = index.status()
    assert after.sources == before.sources and after.dirty == []
    assert index.apply("rooms", [("1", room("Oslo")), ("2", room("Oslo"))]).unchanged == 2

    def items() -> Iterator[tuple[str, dict[str, object]]]:
        yield "3", room("Oslo")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        index.apply("rooms", items())
    assert index.status().sources == before.sources


def test_a_wrong_document_does_not_end_a_feed(index) -> None:
    with index.feed("rooms") as feed:
        feed.add("1", room("Oslo"))
        wrong: list[tuple[object, object, type[Exception], str]] = [
            ("2", {"city": "Oslo", "price": "cheap"}, ValueError, "price"),
            ("2", {"price": 1.0}, ValueError, "city"),
            ("2", {"city": object(), "price": 1.0}, TypeError, "city"),
            ("2", {"city": "Oslo", "price": 1 << 70}, ValueError, "price"),
            ("2", {1: "Oslo"}, TypeError, "str"),
            ("2", ["Oslo"], TypeError, "dict"),
            ("2", None, TypeError, "dict"),
            ("", room("Oslo"), ValueError, "0 bytes"),
            (7, room("Oslo"), TypeError, "bytes or str"),
            ("2", room("Oslo") | {"seen": datetime.datetime(2026, 1, 1)}, ValueError, "seen"),
        ]
        for key, document, error, message in wrong:
            with pytest.raises(error, match=message):
                feed.add(key, document)
            with pytest.raises(error, match=message):
                feed.add_many([(key, document)])
        for items in (7, [7], [("1", room("Oslo"), "more")]):
            with pytest.raises(TypeError):
                feed.add_many(items)
    assert feed.applied.added == 1


def test_a_truncated_feed_is_refused(index) -> None:
    index.apply("rooms", ((str(n), room("Oslo", n)) for n in range(300)))
    with pytest.raises(firndb.InvalidArgumentError, match="would remove 300 of the 300"):
        index.apply("rooms", [])
    with pytest.raises(firndb.InvalidArgumentError), index.feed("rooms") as feed:
        feed.add("0", room("Oslo", 0))
    with pytest.raises(firndb.InvalidArgumentError, match="left out"), index.feed("rooms") as feed:
        feed.add_many((str(n), room("Oslo", n)) for n in range(299))
        feed.left_out(1)
    assert index.status().sources == {"rooms": 300}
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            index.feed("rooms", max_removed=share)
    assert index.apply("rooms", [], max_removed=1).removed == 300


def test_single_changes(index) -> None:
    assert index.upsert("rooms", "1", room("Oslo"), payload=b"p")
    assert not index.upsert("rooms", "1", room("Oslo"), payload=b"p")
    assert index.upsert("rooms", "1", room("Oslo"), payload=b"q")
    with index.changes("rooms") as changes:
        changes.add("2", room("Bergen"))
        changes.remove("1")
    assert (changes.applied.added, changes.applied.removed) == (1, 1)
    assert index.delete("rooms", "2") and not index.delete("rooms", "2")
    assert index.status().sources == {}


def test_documents_have_the_values_of_python(index) -> None:
    seen = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.UTC)
    document = {
        "city": "Oslo",
        "price": 7.0,
        "seen": seen,
        "tags": ["a", "b"],
        "not a field": "is ignored",
    }
    assert index.upsert("rooms", "1", document)
    assert not index.upsert("rooms", "1", document | {"tags": ("a", "b")})
    index.publish()
    (found,) = index.collection.search("city = 'Oslo'")
    assert found == {"city": "Oslo", "price": 7.0, "seen": seen, "tags": ["a", "b"]}
    assert index.upsert("rooms", "1", document | {"seen": None, "tags": []})
    index.publish()
    assert index.collection.count("exists(seen)") == 0
    assert index.schema == SCHEMA


def test_apply_takes_keys_from_documents(index) -> None:
    rooms = [room("Oslo") | {"id": 1}, room("Oslo") | {"id": "2"}]
    assert index.apply("rooms", rooms, key="id").added == 2
    assert index.apply("rooms", rooms, key=lambda room: str(room["id"])).unchanged == 2
    with pytest.raises(TypeError, match="`no` of a document is missing"):
        index.apply("rooms", rooms, key="no")
    with pytest.raises(TypeError, match="`price` of a document is a float"):
        index.apply("rooms", rooms, key="price")
    with pytest.raises(TypeError, match="leave out `key`"):
        index.apply("rooms", {"1": room("Oslo")}, key="id")


def test_a_feed_excludes_other_calls(index, tmp_path) -> None:
    with index.feed("rooms") as feed:
        calls = (
            index.publish,
            index.status,
            lambda: index.feed("other"),
            lambda: index.upsert("a", "1", {}),
            lambda: index.backup(tmp_path / "backup"),
        )
        for call in calls:
            with pytest.raises(firndb.LockedError, match="a feed of the index is in progress"):
                call()
        feed.finish()
        index.publish()
    with pytest.raises(ValueError, match="name of a source"):
        index.feed("")
    feed = index.feed("rooms")
    feed.discard()
    abandoned = index.feed("rooms")
    index.close()
    for call in (lambda: abandoned.add("1", room("Oslo")), abandoned.finish, index.status):
        with pytest.raises(ValueError, match="the index is closed"):
            call()
    assert index.closed


def test_an_abandoned_feed_returns_the_index(index) -> None:
    index.feed("rooms").add("1", room("Oslo"))
    assert index.status().sources == {}


def test_opening(tmp_path) -> None:
    path = tmp_path / "index"
    with pytest.raises(firndb.NotFoundError):
        firndb.Indexer(path)
    with firndb.Indexer(path, SCHEMA, partition_by="city", partitions=4) as index:
        assert (index.partition_by, index.partitions) == ("city", 4)
        with pytest.raises(firndb.LockedError):
            firndb.Indexer(path)
    with firndb.Indexer(path) as index, pytest.raises(TypeError):
        pickle.dumps(index)
    with firndb.Indexer(path, SCHEMA) as index:
        assert (index.partition_by, index.partitions) == ("city", 4)
        assert index.path == str(path) and not index.is_remade
        assert repr(index) == f"firndb.Indexer({str(path)!r})"
        with pytest.raises(ValueError):
            index.repartition()
        index.repartition(8)
        assert (index.partition_by, index.partitions) == (None, 8)
        with pytest.raises(firndb.InvalidArgumentError):
            index.repartition(partition_by="price")
    with pytest.raises(firndb.InvalidArgumentError):
        firndb.Indexer(path, partition_by="city")
    with pytest.raises(firndb.InvalidArgumentError):
        firndb.Indexer(path, {"other": "i64"})
    with pytest.raises(TypeError, match="from_toml"):
        firndb.Indexer(tmp_path / "new", "[fields]")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        firndb.Indexer(tmp_path / "new", 7)  # type: ignore[arg-type]
    with pytest.raises(firndb.InvalidArgumentError):
        firndb.Indexer(tmp_path / "new", SCHEMA, partitions=0)


def test_backups_open_like_an_index(index, tmp_path) -> None:
    index.upsert("rooms", "1", room("Oslo"))
    index.publish()
    index.upsert("rooms", "2", room("Oslo"))
    backup = index.backup(tmp_path / "backup")
    assert backup.partitions == 1 and backup.segments >= 1
    assert index.backup(tmp_path / "backup").segments >= 1
    with firndb.Indexer(tmp_path / "backup") as copy:
        assert copy.status().sources == {"rooms": 2} and copy.publish().rebuilt == ["Oslo"]
    with pytest.raises(firndb.AlreadyExistsError):
        index.backup(tmp_path)


def test_publishing_to_a_catalog(index, tmp_path) -> None:
    catalog = firndb.Catalog(tmp_path / "catalog", create=True)
    index.upsert("rooms", "1", room("Oslo"))
    done = index.publish_to(catalog, "rooms")
    assert done.rebuilt == ["Oslo"] and done.published is not None
    assert done.published.version.number == 1
    assert index.publish_to(catalog, "rooms").published is None
    with pytest.raises(firndb.InvalidArgumentError, match="name"):
        index.publish_to(catalog, "a/b")
    with pytest.raises(TypeError):
        index.publish_to(tmp_path, "rooms")  # type: ignore[arg-type]


def test_threads_share_an_index(index) -> None:
    def change(source: str) -> None:
        for n in range(20):
            while True:
                try:
                    index.upsert(source, f"{source}{n}", room("Oslo", n))
                    break
                except firndb.LockedError:
                    pass  # Another thread is in its block.

    threads = [threading.Thread(target=change, args=(source,)) for source in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert index.status().sources == dict.fromkeys("abcd", 20)


def test_a_forked_child_does_not_write(tmp_path) -> None:
    code = """
        import os, sys, warnings
        import firndb
        warnings.simplefilter("ignore", DeprecationWarning)
        index = firndb.Indexer("index", {"price": "i64"})
        feed = index.feed("a")
        feed.add("1", {"price": 1})
        if os.fork() == 0:
            for call in (index.status, feed.finish, lambda: index.upsert("a", "2", {"price": 2})):
                try:
                    call()
                    os._exit(1)
                except firndb.FailedError as error:
                    assert "forked child" in str(error)
            index.close()
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
        assert feed.finish().added == 1
        index.close()
        with firndb.Indexer("index") as index:
            print(index.status().sources)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{'a': 1}\n", "")
