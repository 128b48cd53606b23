"""Log records of the library in `logging`."""

import logging
import os
import subprocess
import sys
import textwrap
import threading
import time

import firndb
import pytest


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def has(self, operation: str) -> bool:
        return any(record.operation == operation for record in self.records)

    def wait_for(self, operation: str) -> logging.LogRecord:
        """The next record of an operation, which another thread hands over."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for record in self.records:
                if record.operation == operation:
                    return record
            time.sleep(0.001)
        raise AssertionError(f"no record of {operation} among {self.records}")


@pytest.fixture
def records():
    logger, handler = logging.getLogger("firndb"), Records()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def test_openings_backups_and_compactions_are_logged(tmp_path, records) -> None:
    logging.getLogger("firndb").setLevel(logging.INFO)
    before = time.time()
    with firndb.LogStore(tmp_path / "store", segment_bytes=4096) as store:
        opening = records.wait_for("open")
        for n in range(500):
            store["key"] = f"{n}" * 10
        # A thread seals segments: until then there is nothing to compact.
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not records.has("compact"):
            store.compact(0)
            time.sleep(0.001)
        records.wait_for("compact")
        store.backup(tmp_path / "backup")
        backup = records.wait_for("backup")
    assert (opening.name, opening.levelno) == ("firndb.log", logging.INFO)
    assert opening.fields == f"path={tmp_path / 'store'}"
    assert 0 < opening.duration < 60 and before <= opening.created <= time.time()
    assert opening.getMessage().startswith(f"open path={tmp_path / 'store'} took ")
    assert "to=" in backup.getMessage()
    logging.Formatter("%(asctime)s %(name)s %(message)s").format(opening)


def test_the_level_decides_what_is_captured(tmp_path, records) -> None:
    logger = logging.getLogger("firndb")
    for level, is_logged in [
        (logging.WARNING, False),
        (logging.INFO, True),
        (logging.ERROR, False),
        (logging.DEBUG, True),
    ]:
        logger.setLevel(level)
        firndb.LogStore(tmp_path / f"{level}").close()
        if is_logged:
            records.wait_for("open")
        names = [record.fields for record in records.records if record.operation == "open"]
        assert [name for name in names if not name.endswith(f"/{level}")] == []
        records.records.clear()
    logging.disable(logging.CRITICAL)
    firndb.LogStore(tmp_path / "disabled").close()
    logging.disable(logging.NOTSET)
    firndb.LogStore(tmp_path / "enabled").close()
    assert records.wait_for("open").fields.endswith("/enabled")


def test_a_handler_that_raises_does_not_end_the_logging(tmp_path, records, monkeypatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logging.getLogger("firndb").setLevel(logging.INFO)

    def refuse(record: logging.LogRecord) -> bool:
        raise ValueError("mine")

    records.addFilter(refuse)
    firndb.LogStore(tmp_path / "a").close()
    firndb.LogStore(tmp_path / "b").close()
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline and not records.records:
        time.sleep(0.01)
    records.removeFilter(refuse)
    firndb.LogStore(tmp_path / "c").close()
    assert records.wait_for("open").fields.endswith("/c")


def test_many_threads_log_while_handlers_use_the_store(tmp_path, records) -> None:
    """A handler that calls the library takes locks that the threads which log hold as well."""
    logging.getLogger("firndb").setLevel(logging.DEBUG)
    with firndb.LogStore(tmp_path / "store", segment_bytes=4096) as store:

        class Storing(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                store.append("log", record.getMessage()[:10])

        handler = Storing()
        logging.getLogger("firndb").addHandler(handler)

        def work(thread: int) -> None:
            for n in range(200):
                store[f"{thread} {n % 5}"] = "x" * 200
                if n % 40 == 0:
                    store.compact(0)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        records.wait_for("compact")
        logging.getLogger("firndb").removeHandler(handler)
    # The thread may be in the handler at this moment, whose store is closed: that is reported.


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(code)]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


def test_nothing_runs_unless_a_logger_is_enabled(tmp_path) -> None:
    done = run(
        """
        import firndb, logging, sys, threading
        firndb.LogStore(sys.argv[1]).close()
        assert threading.active_count() == 1
        logging.basicConfig(level=logging.DEBUG, format="%(name)s %(message)s", stream=sys.stdout)
        assert threading.active_count() == 2
        """,
        tmp_path / "a",
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


@pytest.mark.parametrize(
    "end",
    [
        "store.close()",
        "pass",
        "import builtins; builtins.kept = store",
        "sys.exit(0)",
        "threading.Thread(target=store.close).start()",
        "import atexit; atexit.register(store.close)",
    ],
)
def test_all_records_are_handed_over_when_the_interpreter_ends(tmp_path, end) -> None:
    done = run(
        f"""
        import logging, sys, threading
        logging.basicConfig(level=logging.DEBUG, format="%(name)s %(message)s", stream=sys.stdout)
        import firndb
        store = firndb.LogStore(sys.argv[1])
        store["a"] = "1"
        {end}
        """,
        tmp_path / "a",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"firndb.log open path={tmp_path / 'a'} took " in done.stdout


def test_a_forked_child_logs_too(tmp_path) -> None:
    done = run(
        """
        import logging, os, sys, threading
        logging.basicConfig(level=logging.INFO, format="%(process)d %(message)s", stream=sys.stdout)
        import firndb
        firndb.LogStore(sys.argv[1]).close()
        import time; time.sleep(0.2)
        sys.stdout.flush()
        child = os.fork()
        firndb.LogStore(sys.argv[1] + ("parent" if child else "child")).close()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """,
        tmp_path / "a",
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    processes = {line.split()[2]: line.split()[0] for line in lines if " open path=" in line}
    assert len(processes) == 3, done.stdout
    first = f"path={tmp_path / 'a'}"
    assert processes[first] == processes[first + "parent"] != processes[first + "child"]
    assert os.getpid() not in processes.values()
