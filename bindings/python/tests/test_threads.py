"""Threads: calls that run at the same time, closing during calls, and objects that change."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import firndb
import pyarrow as pa
import pytest

THREADS = 8
ROUNDS = 10_000


@pytest.fixture(autouse=True)
def _switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(count, run):
    """Runs a function in threads, and raises what one of them raises."""
    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(run, n) for n in range(count)]:
            future.result(timeout=120)


@pytest.mark.parametrize(
    ("kind", "rounds"), [("snapshot", ROUNDS), ("map", ROUNDS // 20), ("buffered", ROUNDS // 40)]
)
def test_closing_during_lookups_is_safe(tmp_path, kind, rounds) -> None:
    """While 8 threads look up, handles are opened and closed under them. Every lookup returns the
    value or raises that the handle is closed. A snapshot takes microseconds to open, a store
    milliseconds; both are closed in the same way."""
    path = tmp_path / "store"
    store = firndb.LogStore(path)
    store.put_many((f"key {n}", f"value {n}") for n in range(100))

    def open_handle():
        return store.snapshot() if kind == "snapshot" else firndb.LogStore(path, "r", access=kind)

    current = open_handle()
    is_over = False
    outcomes = []

    def look_up(thread: int) -> None:
        found = closed = 0
        keys = [f"key {thread}", "absent"]
        while not is_over:
            handle = current
            try:
                for _ in range(20):
                    assert handle["key 7"] == b"value 7"
                    assert handle.get_many(keys) == [b"value %d" % thread, None]
                    assert "absent" not in handle
                    found += 1
            except ValueError as error:
                assert str(error) in ("the store is closed", "the snapshot is closed")
                closed += 1
                while handle is current and not is_over:
                    time.sleep(1e-4)
        outcomes.append((found, closed))

    with ThreadPoolExecutor(THREADS) as pool:
        lookups = [pool.submit(look_up, n) for n in range(THREADS)]
        try:
            for _ in range(rounds):
                current.close()
                current = open_handle()
        finally:
            is_over = True
            current.close()
        for future in lookups:
            future.result(timeout=120)
    found, closed = (sum(counts) for counts in zip(*outcomes, strict=True))
    assert found > 0 and closed > 0
    store.close()


def test_closing_during_writes_is_safe(tmp_path) -> None:
    for number in range(20):
        store = firndb.LogStore(tmp_path / "store")
        done = [0] * 4

        def write(thread, store=store, done=done) -> None:
            try:
                while True:
                    store[f"{thread} {done[thread]}"] = "x"
                    done[thread] += 1
                    with store.batch() as batch:
                        batch[f"batch {thread}"] = "y"
                    store.update("n", lambda old: b"%d" % (int(old or 0) + 1))
            except ValueError as error:
                assert "closed" in str(error)
            except firndb.FailedError as error:
                assert "closed" in str(error)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.002 * (number % 5))
        store.close()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
        with firndb.LogStore(tmp_path / "store") as store:
            for thread, count in enumerate(done):
                for n in range(count):
                    assert f"{thread} {n}" in store
            store.clear()


def test_a_list_may_change_during_get_many(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "s") as store:
        store.put_many((str(n), str(n)) for n in range(1000))
        keys = [str(n) for n in range(1000)]
        stop = threading.Event()

        def change() -> None:
            while not stop.is_set():
                keys[:] = [str(n) for n in range(500)]
                keys.clear()
                keys.extend(str(n) for n in range(1000))

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(300):
                for value in store.get_many(keys):
                    assert value is not None
        finally:
            stop.set()
            thread.join()


def test_a_dictionary_that_changes_during_a_call_is_an_error(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "s") as store:
        keys = {str(n): str(n) for n in range(100)}

        def growing():
            for n, key in enumerate(keys):
                if n == 50:
                    keys["more"] = "x"
                yield key

        with pytest.raises(RuntimeError, match="changed size"):
            store.get_many(growing())
        keys.pop("more")
        stop = threading.Event()

        def change() -> None:
            while not stop.is_set():
                keys["more"] = "x"
                keys.pop("more")

        thread = threading.Thread(target=change)
        thread.start()
        try:
            for _ in range(300):
                try:
                    assert store.put_many(keys) in (100, 101)
                    assert len(store.get_many(keys)) in (100, 101)
                except RuntimeError as error:
                    assert "changed" in str(error)
        finally:
            stop.set()
            thread.join()


def test_batch_calls_let_other_threads_run(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "s") as store:
        store.put_many((str(n), "x" * 1000) for n in range(10_000))
        keys = pa.array([str(n % 10_000) for n in range(50_000)])
        ticks, stop = [0], threading.Event()

        def tick() -> None:
            while not stop.is_set():
                ticks[0] += 1

        thread = threading.Thread(target=tick)
        thread.start()
        try:
            calls = {
                "get_many": lambda: store.get_many(keys, arrow=True),
                "put_many": lambda: store.put_many(pa.table({"key": keys, "value": keys})),
                "compact": lambda: store.compact(0),
                "verify": store.verify,
                "sync": store.sync,
            }
            for name, call in calls.items():
                # With the GIL held by the call, the other thread could not run at all.
                before, started = ticks[0], time.monotonic()
                call()
                if time.monotonic() - started > 0.05:
                    assert ticks[0] > before, name
        finally:
            stop.set()
            thread.join()


def test_updates_of_threads_are_atomic(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "s") as store:

        def add(thread: int) -> None:
            for _ in range(300):
                store.update("n", lambda old: b"%d" % (int(old or 0) + 1))
                store.append("log", b"%d" % thread)
                store.setdefault("once", b"%d" % thread)

        in_threads(4, add)
        assert store["n"] == b"1200" and len(store["log"]) == 1200


def test_every_item_is_popped_by_one_thread(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "s") as store:
        store.put_many((str(n), "x") for n in range(2000))
        popped: list[bytes] = []

        def pop(_: int) -> None:
            for _ in range(500):
                popped.append(store.popitem()[0])

        in_threads(4, pop)
        assert len(set(popped)) == 2000 and len(store) == 0


def test_threads_may_share_an_iterator(tmp_path) -> None:
    with firndb.LogStore(tmp_path / "s") as store:
        store.put_many((str(n), "x" * 100) for n in range(5000))
        keys = iter(store)
        seen: list[bytes] = []

        def take(_: int) -> None:
            while True:
                try:
                    key = next(keys, None)
                except ValueError as error:
                    assert "another thread" in str(error)
                    continue
                if key is None:
                    return
                seen.append(key)

        in_threads(4, take)
        assert len(seen) == len(set(seen)) == 5000


def test_errors_are_made_without_a_lock(tmp_path) -> None:
    """An exception runs Python code, during which another thread may use the same handle."""
    with firndb.LogStore(tmp_path / "s", decode=True) as store:
        store["bad"] = b"\xff"
        long = "k" * 70_000

        def fail(_: int) -> None:
            for _ in range(1000):
                with pytest.raises(firndb.InvalidArgumentError):
                    store[long] = "x"
                with pytest.raises(UnicodeDecodeError):
                    store["bad"]

        in_threads(4, fail)
