"""What the benchmarks share: seeded records, interleaved rounds, and a line of figures at the end.

Each program here measures one thing for all engines in one process: rounds of the engines alternate
and begin with another engine each time, answers are compared before anything is timed, and the
garbage collector is off. `cargo xtask bench python` runs them.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

VALUE_BYTES = 100


def arguments(description: str | None, **sizes: int) -> argparse.Namespace:
    """Directory, rounds, and sizes, which all have defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("dir", type=Path, help="an empty directory, or one that does not exist")
    parser.add_argument("--rounds", type=int, default=9)
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    return options


def key(number: int) -> bytes:
    """The key of a record: 16 bytes."""
    return b"key-%012d" % number


def records(count: int) -> list[tuple[bytes, bytes]]:
    """Records with values of 100 random bytes, in random order."""
    rng = random.Random(7)
    made = [(key(number), rng.randbytes(VALUE_BYTES)) for number in range(count)]
    rng.shuffle(made)
    return made


def interleaved(engines: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each engine in each round, after one round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    order = list(engines)
    gc.collect()
    gc.disable()
    for number in range(rounds + 1):
        for name in order:
            call = engines[name]
            start = time.perf_counter()
            call()
            took = time.perf_counter() - start
            if number > 0:
                times[name].append(took)
        order.append(order.pop(0))
    gc.enable()
    return times


def report(times: Mapping[str, list[float]], operations: int, **more: object) -> None:
    """Prints nanoseconds per operation, for each engine and round, as a line of JSON."""
    nanos = {name: [took * 1e9 / operations for took in taken] for name, taken in times.items()}
    print(json.dumps({"nanos": nanos, **more}), flush=True)


def compare(answers: Mapping[str, Any]) -> None:
    """Ends the program if two engines gave different answers."""
    (first, expected), *others = answers.items()
    for name, answer in others:
        if answer != expected:
            raise SystemExit(f"{name} and {first} gave different answers")
