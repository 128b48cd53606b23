"""A filtered page of 100 hits into polars, beside the same page in Rust."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable

import firndb
import measure
import numpy as np
import pyarrow as pa

QUERY = "price < 900000 and city = 'Oslo' order by price limit 100"
FIELDS = ["id", "price", "city", "year", "rating"]
SCHEMA = {
    "id": "u64",
    "price": "u64",
    "city": "string",
    "year": "i64",
    "rating": "f64",
}


def rows(count: int) -> pa.Table:
    rng = np.random.default_rng(7)
    cities = np.array([f"city {number}" for number in range(200)] + ["Oslo"] * 20)
    return pa.table(
        {
            "id": pa.array(np.arange(count), pa.uint64()),
            "price": pa.array(rng.integers(10_000, 5_000_000, count), pa.uint64()),
            "city": pa.array(cities[rng.integers(0, len(cities), count)].tolist(), pa.string()),
            "year": pa.array(rng.integers(1990, 2026, count), pa.int64()),
            "rating": pa.array(rng.random(count), pa.float64()),
        }
    )


def main() -> None:
    options = measure.arguments(__doc__, rows=1_000_000, pages=500)
    path = options.dir / "collection"
    firndb.build_collection(rows(options.rows), firndb.Schema(SCHEMA), path).close()
    with firndb.Collection(path) as collection:

        def to_polars() -> object:
            return collection.search(QUERY, FIELDS).to_polars()

        def search() -> object:
            return collection.search(QUERY, FIELDS)

        def to_dicts() -> object:
            return collection.search(QUERY, FIELDS).to_dicts()

        def in_python(call: Callable[[], object]) -> float:
            start = time.perf_counter_ns()
            for _ in range(options.pages):
                call()
            return (time.perf_counter_ns() - start) / options.pages

        def in_rust() -> float:
            command = [os.environ["FIRN_BENCH"], "page", str(path), QUERY, ",".join(FIELDS)]
            command.append(f"--pages={options.pages}")
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            answer = json.loads(out)
            if answer["hits"] != 100:
                raise SystemExit(f"{answer['hits']} hits")
            return float(answer["nanos"])

        frame = collection.search(QUERY, FIELDS).to_polars()
        measure.compare(
            {"dicts": collection.search(QUERY, FIELDS).to_dicts(), "polars": frame.to_dicts()}
        )
        assert frame.height == 100
        nanos: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for name, seconds in {
                "Rust": in_rust,
                "firndb, to_polars": lambda: in_python(to_polars),
                "firndb, search alone": lambda: in_python(search),
                "firndb, to_dicts": lambda: in_python(to_dicts),
            }.items():
                nanos.setdefault(name, []).append(seconds())
        print(json.dumps({"nanos": nanos}), flush=True)


if __name__ == "__main__":
    main()
