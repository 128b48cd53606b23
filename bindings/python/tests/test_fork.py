"""Processes: stores before and after fork, in spawned processes, and next to a writer."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor

import firndb
import pytest

METHODS = [
    method
    for method in ("spawn", "fork", "forkserver")
    if method in multiprocessing.get_all_start_methods()
]

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


def in_fork(check) -> str:
    """What a function returns in a forked child, or the exception that it raises, as text."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            text = repr(check())
        except BaseException as error:  # All of them are the result.
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0
    return text


def test_a_forked_child_reads_and_does_not_write(path) -> None:
    with firndb.LogStore(path) as store:
        store.update(a="1", b="2")
        assert in_fork(lambda: store["a"]) == "b'1'"
        assert in_fork(lambda: sorted(store.items())) == "[(b'a', b'1'), (b'b', b'2')]"
        assert in_fork(lambda: store.get_many(["b", "c"])) == "[b'2', None]"
        assert in_fork(lambda: (len(store), store.stats().keys)) == "(2, 2)"
        writes = [
            lambda: store.put("c", "3"),
            lambda: store.__setitem__("c", "3"),
            lambda: store.put_many({"c": "3"}),
            lambda: store.delete("a"),
            lambda: store.update("a", lambda old: "3"),
            lambda: store.pop("a"),
            lambda: store.popitem(),
            lambda: store.clear(),
            lambda: store.sync(),
            lambda: store.compact(0),
            lambda: store.maintain(),
        ]
        for write in writes:
            assert in_fork(write).startswith("FailedError: "), write
        assert "open the store after the fork" in in_fork(writes[0])
        batch = store.batch()
        batch["c"] = "3"
        assert in_fork(batch.commit).startswith("FailedError")
        store["c"] = "4"  # The parent continues.
        assert dict(store) == {b"a": b"1", b"b": b"2", b"c": b"4"}


def test_a_child_that_closes_does_not_close_the_parents_store(path) -> None:
    store = firndb.LogStore(path)
    store["a"] = "1"
    assert in_fork(store.close) == "None"

    def collect():
        nonlocal store
        del store

    assert in_fork(collect) == "None"
    store["b"] = "2"
    store.close()
    with firndb.LogStore(path, "w") as store:
        assert store == {b"a": b"1", b"b": b"2"}


def test_the_parent_closes_and_reopens_while_a_child_holds_the_handle(path) -> None:
    store = firndb.LogStore(path)
    store["a"] = "1"
    go_reader, go_writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(go_writer)
        os.read(go_reader, 1)
        try:
            store.put("child", "x")
        except firndb.FailedError:
            os._exit(0 if store["a"] == b"1" else 2)
        os._exit(1)
    store.close()
    with firndb.LogStore(path, "w") as store:
        store["b"] = "2"
    os.close(go_writer)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with firndb.LogStore(path, "w") as store:
        assert store == {b"a": b"1", b"b": b"2"}


def test_a_child_may_open_the_store_itself_after_the_parent_closed_it(path) -> None:
    store = firndb.LogStore(path)

    def write_in_child():
        with firndb.LogStore(path) as own:
            own["child"] = "1"
            return len(own)

    assert in_fork(write_in_child).startswith("LockedError")
    store.close()
    assert in_fork(write_in_child) == "1"
    with firndb.LogStore(path) as store:
        assert store["child"] == b"1"


def test_a_fork_while_threads_write(path) -> None:
    """A lock that a thread of the parent holds at the time of the fork is never released in the
    child: its reads must not wait for one."""
    # Short segments, so that compaction keeps the log short, and an iteration is fast.
    with firndb.LogStore(path, segment_bytes=1 << 16) as store:
        store.put_many((str(n), "x" * 100) for n in range(200))
        stop = threading.Event()

        def write(thread: int) -> None:
            while not stop.is_set():
                store.put_many((f"{thread} {k}", "y") for k in range(50))
                with store.snapshot() as snapshot:
                    snapshot.get("1")

        threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                read = in_fork(lambda: (store["7"], store.get_many(["x"]), len(list(store)) > 199))
                assert read == f"({b'x' * 100!r}, [None], True)"
                assert in_fork(lambda: store.put("a", "b")).startswith("FailedError")
                assert in_fork(store.close) == "None"
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def read_in_process(store: firndb.LogStore, key: str) -> tuple[bytes, bool, int]:
    with store:
        return store[key], store.read_only, os.getpid()


def write_in_process(path: str) -> str:
    try:
        with firndb.LogStore(path) as store:
            store["child"] = "1"
    except firndb.LockedError as error:
        return type(error).__name__
    return "written"


@pytest.mark.parametrize("method", METHODS)
def test_readers_are_sent_to_other_processes(path, method) -> None:
    with firndb.LogStore(path) as store:
        store["a"] = "1"
        context = multiprocessing.get_context(method)
        with firndb.LogStore(path, "r") as reader, ProcessPoolExecutor(2, context) as pool:
            value, read_only, process = pool.submit(read_in_process, reader, "a").result(60)
            assert (value, read_only) == (b"1", True) and process != os.getpid()
            assert pool.submit(write_in_process, str(path)).result(60) == "LockedError"
            with pytest.raises(TypeError, match="cannot be pickled"):
                pool.submit(read_in_process, store, "a").result(60)
            with pytest.raises(firndb.InvalidArgumentError) as caught:
                pool.submit(put_in_process, reader).result(60)
            assert caught.value.path == reader.path  # Exceptions keep what they have.


def put_in_process(store: firndb.LogStore) -> None:
    store["a"] = "1"


def test_errors_can_be_pickled(path) -> None:
    with pytest.raises(firndb.NotFoundError) as caught:
        firndb.LogStore(path, "r")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.path, str(again)) == (
        firndb.NotFoundError,
        caught.value.path,
        str(caught.value),
    )


def run(code: str, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Runs a program in a new interpreter, in which warnings are errors."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(code)]
    command += map(str, arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def test_a_reader_process_sees_what_a_writer_process_writes(path) -> None:
    with firndb.LogStore(path) as store:
        store["n"] = "0"
        reader = subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent("""
                    import sys, firndb
                    with firndb.LogStore(sys.argv[1], "r") as store:
                        print("open", flush=True)
                        for line in sys.stdin:
                            changed = store.refresh()
                            print(changed, store["n"].decode(), len(store), flush=True)
                """),
                path,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with reader:
            assert reader.stdout.readline() == "open\n"
            for n in range(1, 20):
                store["n"] = str(n)
                store[f"key {n}"] = "x"
                reader.stdin.write("\n")
                reader.stdin.flush()
                assert reader.stdout.readline() == f"True {n} {n + 1}\n"
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == "False 19 20\n"
            reader.stdin.close()
        assert reader.returncode == 0


@pytest.mark.parametrize(
    "code",
    [
        "store['a'] = '1'",
        "store['a'] = '1'; it = iter(store.items()); next(it); snap = store.snapshot()",
        "import threading; threading.Thread(target=store.put, args=('a', '1')).start()",
        "store['a'] = '1'; import builtins; kept = [store]; kept.append(kept); builtins.x = kept",
        "store.put_many((str(n), 'x') for n in range(1000)); store['a'] = '1'; sys.exit(0)",
    ],
)
def test_an_interpreter_that_ends_without_a_close(path, code) -> None:
    program = f"import sys, firndb; store = firndb.LogStore(sys.argv[1]); {code}"
    done = run(program, path)
    assert (done.returncode, done.stderr) == (0, "")
    with firndb.LogStore(path, "w") as store:
        assert store["a"] == b"1"
