"""A table from an Arrow table in memory, beside the command line, which reads an Arrow IPC file."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import firndb
import measure
import numpy as np
import pyarrow as pa

ROWS_PER_BATCH = 65_536


def rows(count: int) -> pa.Table:
    """Keys in random order, and three columns, which become a record."""
    rng = np.random.default_rng(7)
    numbers = rng.permutation(count)
    keys = np.char.add("user-", numbers.astype("U10"))
    cities = np.array(["Oslo", "Bergen", "Trondheim", "Stavanger", "Bod\u00f8"])
    table = pa.table(
        {
            "key": pa.array(keys.tolist(), pa.string()),
            "age": pa.array(rng.integers(18, 99, count), pa.int64()),
            "score": pa.array(rng.random(count), pa.float64()),
            "city": pa.array(cities[rng.integers(0, 5, count)].tolist(), pa.string()),
        }
    )
    # As files and query engines deliver it: in batches.
    return pa.Table.from_batches(table.to_batches(max_chunksize=ROWS_PER_BATCH))


def main() -> None:
    options = measure.arguments(__doc__, rows=5_000_000)
    table = rows(options.rows)
    file = options.dir / "rows.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    firn = Path(sysconfig.get_path("scripts"), "firn")
    ours, theirs = options.dir / "python.table", options.dir / "firn.table"

    def build_in_python() -> None:
        ours.unlink(missing_ok=True)
        firndb.build_table(table, ours, key="key").close()

    def build_with_firn() -> None:
        theirs.unlink(missing_ok=True)
        arguments = ["table", "build", file, "--key", "key", "--output", theirs]
        subprocess.run([firn, *arguments], check=True, capture_output=True)

    build_in_python()
    build_with_firn()
    measure.compare({"firn": theirs.read_bytes(), "firndb": ours.read_bytes()})
    engines = {"firndb": build_in_python, "firn": build_with_firn}
    measure.report(measure.interleaved(engines, min(options.rounds, 5)), options.rows)


if __name__ == "__main__":
    main()
