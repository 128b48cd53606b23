"""Single gets of 100 bytes with random keys, from stores that are in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import firndb
import measure
import peers


def main() -> None:
    options = measure.arguments(__doc__, records=1_000_000, gets=100_000)
    records = measure.records(options.records)
    env = peers.open_lmdb(options.dir / "lmdb")
    peers.fill_lmdb(env, records)
    rocks = peers.open_rocksdict(options.dir / "rocksdict")
    peers.fill_rocksdict(rocks, records)
    rocks.flush()
    rocks.compact_range(None, None)
    with firndb.LogStore(options.dir / "log") as store:
        for key, value in records:
            store[key] = value
    with firndb.LogStore(options.dir / "log", "r") as store, env.begin() as txn:
        rng = random.Random(11)
        keys = [measure.key(rng.randrange(options.records)) for _ in range(options.gets)]
        engines: dict[str, Callable[[bytes], Any]] = {
            # The fastest form of each: one transaction for all gets of lmdb.
            "firndb": store.get,
            "lmdb": txn.get,
            "rocksdict": rocks.get,
            "firndb []": store.__getitem__,
        }
        measure.compare({name: [get(key) for key in keys] for name, get in engines.items()})

        def loop(get: Callable[[bytes], Any]) -> Callable[[], None]:
            def run() -> None:
                for key in keys:
                    get(key)

            return run

        loops = {name: loop(get) for name, get in engines.items()}
        # What the loop itself takes, and the call of a function that does nothing.
        loops["empty"] = loop(bool)
        times = measure.interleaved(loops, options.rounds)
        measure.report(times, len(keys), records=options.records)


if __name__ == "__main__":
    main()
