"""1,000 random keys per call to Arrow, beside a loop over lmdb."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import firndb
import measure
import peers
import pyarrow as pa

KEYS = 1000


def main() -> None:
    options = measure.arguments(__doc__, records=1_000_000, calls=200)
    records = measure.records(options.records)
    env = peers.open_lmdb(options.dir / "lmdb")
    peers.fill_lmdb(env, records)
    with firndb.LogStore(options.dir / "log") as store:
        peers.fill_firndb(store, records)
    del records
    rng = random.Random(13)
    batches = [
        [measure.key(rng.randrange(options.records)) for _ in range(KEYS)]
        for _ in range(options.calls)
    ]
    with firndb.LogStore(options.dir / "log", "r") as store, env.begin() as txn:

        def lmdb_list(keys: Sequence[bytes]) -> list[bytes]:
            get = txn.get
            return [get(key) for key in keys]

        engines: dict[str, Callable[[Sequence[bytes]], Any]] = {
            "firndb": lambda keys: store.get_many(keys, arrow=True),
            "firndb, to pyarrow": lambda keys: pa.array(store.get_many(keys, arrow=True)),
            "firndb, list": store.get_many,
            "lmdb loop": lmdb_list,
            "lmdb loop, to pyarrow": lambda keys: pa.array(lmdb_list(keys), pa.large_binary()),
        }

        def answer(get: Callable[[Sequence[bytes]], Any], keys: Sequence[bytes]) -> list[bytes]:
            found = get(keys)
            return found if isinstance(found, list) else pa.array(found).to_pylist()

        answers = {name: [answer(get, keys) for keys in batches] for name, get in engines.items()}
        measure.compare(answers)
        del answers

        def loop(get: Callable[[Sequence[bytes]], Any]) -> Callable[[], None]:
            def run() -> None:
                for keys in batches:
                    get(keys)

            return run

        times = measure.interleaved({n: loop(get) for n, get in engines.items()}, options.rounds)
        measure.report(times, KEYS * options.calls)


if __name__ == "__main__":
    main()
