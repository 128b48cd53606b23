"""Readers of catalogs, and the threads that watch for new versions."""

import contextlib
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import firndb
import pytest

SCHEMA = firndb.Schema.from_toml('[fields]\nprice = "i64 full"\n')
PATIENCE = 20.0


class Source:
    """A collection of which each version has a document more."""

    def __init__(self, directory: Path, is_later: bool = False) -> None:
        self.directory = directory
        self.index = firndb.Indexer(directory / "index", SCHEMA, partitions=2)
        self.catalog = firndb.Catalog(directory / "catalog", create=True)
        self.count = max(self.catalog.versions("rooms"), default=0) if is_later else 0

    def publish(self) -> int:
        self.count += 1
        self.index.upsert("rooms", str(self.count), {"price": self.count})
        published = self.index.publish_to(self.catalog, "rooms").published
        assert published is not None
        return published.version.number

    @contextlib.contextmanager
    def damaged(self) -> Iterator[None]:
        """In this block there is a newer version, which cannot be opened."""
        newer = self.catalog.versions("rooms")[-1] + 1
        manifest = self.directory / f"catalog/rooms/versions/{newer:020}.json"
        manifest.write_text("{}")
        try:
            yield
        finally:
            manifest.unlink()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    source = Source(tmp_path)
    source.publish()
    yield source
    source.index.close()


@pytest.fixture
def reader(source: Source, tmp_path: Path) -> Iterator[firndb.CatalogReader]:
    with source.catalog.reader("rooms", tmp_path / "cache") as reader:
        yield reader


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.005)


def test_a_reader_switches_and_old_generations_stay(source, reader, tmp_path) -> None:
    old = reader.current
    assert old is reader.current and (old.number, old.name, old.kind) == (1, "rooms", "collection")
    assert not reader.refresh()
    source.publish()
    assert reader.refresh()
    assert (old.number, reader.current.number) == (1, 2)
    assert old.version == source.catalog.version("rooms", 1)
    assert "version 1" in repr(old) and "version 2" in repr(reader)
    stats = reader.stats()
    assert (stats.version, stats.newest, stats.swaps, stats.failures) == (2, 2, 1, 0)
    assert stats.last_error is None and stats.switched.tzinfo is not None
    assert stats.fetched_bytes > 0 and "swap_age_seconds" in stats.as_dict()
    assert "<table>" in stats._repr_html_()
    reader.close()
    reader.close()
    assert reader.closed and "closed" in repr(reader) and old.number == 1
    for call in (lambda: reader.current, reader.refresh, reader.stats, reader.watch):
        with pytest.raises(ValueError, match="the reader is closed"):
            call()
    with source.catalog.reader("rooms", tmp_path / "cache", version=1) as pinned:
        assert pinned.current.number == 1 and not pinned.refresh()


def test_collections_of_generations_never_change(source, reader) -> None:
    old = reader.current.collection()
    source.publish()
    reader.refresh()
    new = reader.current.collection()
    assert (len(old), len(new)) == (1, 2)
    assert [hit["price"] for hit in new.search("price = 2")] == [2]
    with pytest.raises(firndb.InvalidArgumentError, match="no table: its kind is collection"):
        reader.current.table()
    reader.close()
    assert old.count() == 1


def test_a_directory_has_one_reader(source, reader, tmp_path) -> None:
    with pytest.raises(firndb.LockedError):
        source.catalog.reader("rooms", tmp_path / "cache")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine").write_text("mine")
    with pytest.raises(firndb.AlreadyExistsError):
        source.catalog.reader("rooms", tmp_path / "other")
    with pytest.raises(firndb.NotFoundError):
        source.catalog.reader("absent", tmp_path / "third")
    with pytest.raises(firndb.InvalidArgumentError, match="bytes of disk"):
        source.catalog.reader("rooms", tmp_path / "third", cache_bytes=10)
    with pytest.raises(ValueError, match="'map', 'buffered'"):
        source.catalog.reader("rooms", tmp_path / "third", access="fast")
    with pytest.raises(TypeError, match="owns its directory"):
        pickle.dumps(reader)
    with pytest.raises(TypeError):
        firndb.CatalogReader(tmp_path, "rooms", tmp_path / "third")  # type: ignore[arg-type]


def test_a_reader_starts_and_goes_on_without_its_catalog(source, reader, tmp_path) -> None:
    with source.damaged():
        with pytest.raises(firndb.CorruptError):
            reader.refresh()
        stats = reader.stats()
        assert (stats.version, stats.newest, stats.failures) == (1, 2, 1) and stats.last_error
    reader.close()
    os.rename(tmp_path / "catalog", tmp_path / "away")
    with source.catalog.reader("rooms", tmp_path / "cache") as again:
        assert again.current.number == 1 and again.stats().last_error
        os.rename(tmp_path / "away", tmp_path / "catalog")
        source.publish()
        assert again.refresh() and again.current.number == 2


def test_a_watch_calls_back_in_its_thread(source, reader) -> None:
    seen: list[tuple[int, str]] = []

    def note(new: firndb.Generation) -> None:
        seen.append((new.number, threading.current_thread().name))

    with reader.watch(0.01, note) as watch:
        assert watch.is_running
        for number in (2, 3):
            assert source.publish() == number
            until(lambda number=number: seen and seen[-1][0] == number)
    assert not watch.is_running
    assert seen == [(2, "firndb-watch-rooms"), (3, "firndb-watch-rooms")]
    source.publish()
    time.sleep(0.05)
    assert len(seen) == 2 and reader.current.number == 3
    watch.stop()


def test_exceptions_in_callbacks_are_logged_and_do_not_end_the_watch(
    source, reader, caplog
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("in a callback")

    with reader.watch(0.01, fail, fail) as watch:
        source.publish()
        until(lambda: reader.current.number == 2 and caplog.records)
        with source.damaged():
            until(lambda: len(caplog.records) >= 2)
        source.publish()
        until(lambda: reader.current.number == 3)
        assert watch.is_running
    assert all(record.name == "firndb.catalog" for record in caplog.records)
    assert all("in a callback" in (record.exc_text or "") for record in caplog.records)


def test_errors_are_given_to_the_callback_or_logged_once(
    source, reader, caplog
) -> None:
    errors: list[Exception] = []
    with (
        source.damaged(),
        reader.watch(0.01, on_error=errors.append),
        caplog.at_level(logging.WARNING),
    ):
        until(lambda: len(errors) > 2)
        assert not caplog.records
        with reader.watch(0.01):
            until(lambda: caplog.records)
            count = len(errors)
            until(lambda: len(errors) > count + 3)
        assert len(caplog.records) == 1
        assert "rooms" in caplog.text and "stays in use" in caplog.text
    assert all(isinstance(error, firndb.FirnError) for error in errors)


def test_watches_end_with_their_reader(source, tmp_path) -> None:
    reader = source.catalog.reader("rooms", tmp_path / "cache")
    watches = [reader.watch(0.001), reader.watch(3600)]
    reader.close()
    assert not any(watch.is_running for watch in watches)
    reader = source.catalog.reader("rooms", tmp_path / "cache")
    watch = reader.watch(0.001)
    del reader
    until(lambda: not watch.is_running)
    source.catalog.reader("rooms", tmp_path / "cache").close()


def test_a_callback_may_stop_the_watch_and_close_the_reader(source, tmp_path) -> None:
    reader = source.catalog.reader("rooms", tmp_path / "cache")
    watch = reader.watch(0.001, lambda _: reader.close())
    source.publish()
    until(lambda: not watch.is_running)
    assert reader.closed


@pytest.mark.parametrize(
    ("interval", "error"),
    [(0, ValueError), (-1, ValueError), ("1s", TypeError), (None, TypeError), (True, TypeError)],
)
def test_wrong_intervals(reader, interval, error) -> None:
    with pytest.raises(error, match="interval"):
        reader.watch(interval)
    with pytest.raises(TypeError, match="on_change"):
        reader.watch(1, on_change=7)


def test_changes_are_iterated(source, reader) -> None:
    changes = reader.changes(timeout=PATIENCE, interval=0.005)
    source.publish()
    assert next(changes).number == 2
    source.publish()
    assert next(changes).number == 3
    assert list(reader.changes(timeout=0.02, interval=0.005)) == []
    threading.Timer(0.05, reader.close).start()
    assert list(changes) == []


def publish_in_a_process(directory: Path, versions: int) -> None:
    source = Source(directory, is_later=True)
    while source.count < versions:
        source.publish()
    source.index.close()


def test_no_query_fails_while_a_publisher_swaps_versions(tmp_path) -> None:
    versions, failures, counts = 40, [], []
    first = Source(tmp_path)
    first.publish()
    first.index.close()
    with first.catalog.reader("rooms", tmp_path / "cache") as reader, reader.watch(0.001):
        is_done = threading.Event()

        def query() -> None:
            last = 0
            while not is_done.is_set():
                try:
                    generation = reader.current
                    count = generation.collection().count("price > 0")
                    assert count == generation.version.statistics["documents"]
                    assert generation.number >= last
                    last = generation.number
                    counts.append(count)
                except BaseException as error:
                    failures.append(error)
                    return

        threads = [threading.Thread(target=query) for _ in range(4)]
        for thread in threads:
            thread.start()
        context = multiprocessing.get_context("spawn")
        publisher = context.Process(target=publish_in_a_process, args=(tmp_path, versions))
        publisher.start()
        publisher.join(60)
        try:
            until(lambda: failures or reader.current.number == versions)
        finally:
            is_done.set()
            for thread in threads:
                thread.join()
        assert publisher.exitcode == 0
        stats = reader.stats()
    assert not failures and len(counts) > 100
    assert stats.failures == 0 and stats.swaps > 1


def test_closing_during_use_is_safe(source, tmp_path) -> None:
    for _ in range(20):
        reader = source.catalog.reader("rooms", tmp_path / "cache")
        unexpected: list[BaseException] = []

        def use(reader=reader, unexpected=unexpected) -> None:
            try:
                while True:
                    assert reader.current.number >= 1
                    reader.refresh()
                    reader.stats()
            except ValueError as error:
                assert "closed" in str(error)
            except BaseException as error:
                unexpected.append(error)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        source.publish()
        reader.close()
        for thread in threads:
            thread.join()
        assert not unexpected


def run(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_interpreter_exits_while_watches_run(source, tmp_path) -> None:
    code = """
        import firndb
        reader = firndb.Catalog("catalog").reader("rooms", "cache")
        for _ in range(3):
            reader.watch(0.0001, print, print)
        other = firndb.Catalog("http://127.0.0.1:9/none")
        print("end")
    """
    for _ in range(5):
        done = run(code, tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_forked_child_reads_and_does_not_write(source, tmp_path) -> None:
    code = """
        import os, sys, warnings
        import firndb
        warnings.simplefilter("ignore", DeprecationWarning)
        catalog = firndb.Catalog("catalog")
        reader = catalog.reader("rooms", "cache")
        watch = reader.watch(0.0001)
        for _ in range(20):
            child = os.fork()
            if child == 0:
                assert reader.current.number == 1 and not watch.is_running
                assert catalog.versions("rooms") == [1]
                for call in (reader.refresh, reader.stats):
                    try:
                        call()
                        os._exit(1)
                    except firndb.FailedError as error:
                        assert "forked child" in str(error)
                watch.stop()
                reader.close()
                sys.exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        reader.refresh()
        reader.close()
        catalog.reader("rooms", "cache").close()
        print("end")
    """
    done = run(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
