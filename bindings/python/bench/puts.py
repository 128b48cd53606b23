"""New records in batches of 1,000, into stores that begin empty."""

from __future__ import annotations

import gc
import itertools
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import firndb
import measure
import peers


def main() -> None:
    options = measure.arguments(__doc__, records=500_000)
    records = measure.records(options.records)
    numbers = itertools.count()

    def put_firndb(path: Path) -> float:
        with firndb.LogStore(path) as store:
            return seconds(lambda: peers.fill_firndb(store, records))

    def put_atomically(path: Path) -> float:
        with firndb.LogStore(path) as store:
            return seconds(lambda: peers.fill_firndb_atomically(store, records))

    def put_lmdb(path: Path) -> float:
        with peers.open_lmdb(path) as env:
            return seconds(lambda: peers.fill_lmdb(env, records))

    def put_rocksdict(path: Path) -> float:
        db = peers.open_rocksdict(path)
        took = seconds(lambda: peers.fill_rocksdict(db, records))
        db.close()
        return took

    def in_a_new_store(put: Callable[[Path], float]) -> Callable[[], float]:
        def run() -> float:
            # What the round before has left is removed by the next: one store of each is there.
            path = options.dir / f"{put.__name__}-{next(numbers)}"
            for old in options.dir.glob(f"{put.__name__}-*"):
                shutil.rmtree(old)
            return put(path)

        return run

    engines = {
        "firndb": put_firndb,
        "firndb, batch": put_atomically,
        "lmdb": put_lmdb,
        "rocksdict": put_rocksdict,
    }
    calls = {name: in_a_new_store(put) for name, put in engines.items()}
    for call in calls.values():
        call()
    expected = dict(records)
    [log] = options.dir.glob("put_firndb-*")
    with firndb.LogStore(log, "r") as store:
        firndb_records = dict(store.items())
    [log] = options.dir.glob("put_atomically-*")
    with firndb.LogStore(log, "r") as store:
        batch_records = dict(store.items())
    [path] = options.dir.glob("put_lmdb-*")
    with peers.open_lmdb(path) as env, env.begin() as txn:
        lmdb_records = dict(txn.cursor())
    [path] = options.dir.glob("put_rocksdict-*")
    db = peers.open_rocksdict(path)
    rocksdict_records = dict(db.items())
    db.close()
    measure.compare(
        {
            "what was put": expected,
            "firndb": firndb_records,
            "firndb, batch": batch_records,
            "lmdb": lmdb_records,
            "rocksdict": rocksdict_records,
        }
    )
    del expected, firndb_records, batch_records, lmdb_records, rocksdict_records
    times: dict[str, list[float]] = {}
    gc.disable()
    for _ in range(options.rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            times.setdefault(name, []).append(call())
            whole = time.perf_counter() - start
            times.setdefault(f"{name}: open, put, close", []).append(whole)
    measure.report(times, len(records))


def seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
