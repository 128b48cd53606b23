"""Builds tables."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, Protocol, TypeAlias, Unpack

from firndb import _native
from firndb._dialect import Dialect, dialect_options
from firndb._errors import FirnWarning
from firndb._log import LogStore, Snapshot
from firndb._progress import Progress, reporting
from firndb._table import ApproximateTable, ShardedTable, Table

Path: TypeAlias = str | os.PathLike[str]


class ArrowStream(Protocol):
    """An object with Arrow data: a table of pyarrow, a frame of pandas or polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Bytes: TypeAlias = bytes | bytearray | memoryview | str
Source: TypeAlias = (
    Path
    | Sequence[Path]
    | ArrowStream
    | Mapping[str, Bytes]
    | Mapping[bytes, Bytes]
    | Iterable[tuple[Bytes, Bytes]]
    | Iterable[Mapping[str, Any]]
    | Table
    | ShardedTable
    | LogStore
    | Snapshot
)
_Format: TypeAlias = Literal["auto", "text", "csv", "tsv", "jsonl", "parquet", "arrow", "avro"]


def build_table(
    source: Source,
    path: Path,
    *,
    key: str | Sequence[str] | None = None,
    row_number: bool = False,
    value: str | Sequence[str] | None = None,
    format: _Format | None = None,
    separator: Bytes | None = None,
    record: bool = False,
    duplicates: Literal["error", "first", "last"] = "error",
    on_error: Literal["stop", "skip"] = "stop",
    order: Literal["hash", "key"] = "hash",
    block_size: int | None = None,
    compression: Literal["none", "record", "block"] | None = None,
    level: int | None = None,
    filter: Literal[8, 16] | None = None,
    memory_bytes: int | None = None,
    temp_dir: Path | None = None,
    threads: int | None = None,
    metadata: Bytes | None = None,
    overwrite: bool = False,
    progress: Progress = None,
    **dialect: Unpack[Dialect],
) -> Table:
    """Builds a table and opens it.

    Nothing appears under `path` before the table is complete and survives power loss. If the build
    fails, if the source raises an exception, or after Ctrl-C, the old file or nothing is there. The
    same records give the same bytes as `firn table build`.

    Args:
        source: where the records come from:

            - a path or a list of paths of files and directories: text, CSV, TSV, JSON lines,
              Parquet, Arrow IPC and Avro, also compressed with gzip or zstd; "-" is standard input
            - an object with Arrow data: tables and readers of pyarrow, frames of pandas and polars,
              relations of duckdb
            - a mapping of keys to values, or an iterable of pairs of them, as `bytes` or `str`
            - an iterable of dictionaries, the rows. Columns are `bool`, `int`, `float`, `str`,
              `bytes`, `date` or `datetime`, each can be `None`, and the first 10,000 rows define
              the types
            - another table, a log store or a snapshot of it
        path: the file to write.
        key: the column of the key; needed for all rows with columns. Integers become text. The key
            of several columns is their values with the character U+001F between them.
        row_number: the key of a row is its number, from 1 and over all inputs.
        value: the column or columns of the value; by default all but the key. In CSV, JSON lines
            and dictionaries "NAME:TYPE" declares the type: boolean, long, double, string or json.
            One column is stored as its bytes or text, several as a record of columns.
        format: the format of files; by default the file name decides, then the first bytes.
        separator: separates key and value in text; a blank by default.
        record: store a single column as a record, too.
        duplicates: what happens if a key occurs twice: "error", or keep the "first" or the "last".
        on_error: what happens if a row cannot be used: "stop" the build, or "skip" it and warn once
            at the end.
        order: the order of the records. "hash", that of hashes of their keys, has the fastest gets;
            with "key", `Table.range` and `Table.prefix` work, iterations are sorted, and records
            that come in this order are written in one pass.
        block_size: bytes of a block, a multiple of 4096 up to 1 MiB. Default: 4096.
        compression: "record" compresses each value, "block" each block. Default: "none".
        level: the zstd level, 1 to 19. Default: 3.
        filter: bits per key of a filter that answers most gets of absent keys without reading a
            block: 8 or 16. Default: no filter.
        memory_bytes: memory for records, at least 16 MiB; more of them go to a temporary file.
            Default: 1 GiB.
        temp_dir: the directory of the temporary file. Default: that of the table.
        threads: threads that sort and compress. Default: one per processor.
        metadata: bytes to keep in the table. If the source is a table, those of the source.
        overwrite: replace a table under this path. Other files are never replaced.
        progress: a function of what is done and the total (bytes of files, or rows; the total is
            `None` if it is not known), called for reading and then for writing; `True` for a bar,
            `False` for nothing. By default a bar in terminals and notebooks.
        dialect: how text files are written: `delimiter`, `quote`, `escape`, `comment`, `header`,
            `skip_lines`, `ragged`, `encoding` and `max_row`; see `Dialect`.

    Raises:
        AlreadyExistsError: there is a file under the path that must not be replaced.
        CorruptError: an input is a damaged Parquet, Arrow or Avro file, or its compression is
            damaged.
        InvalidArgumentError: an option is out of range, or a row cannot be used; a key occurs
            twice.
        NotFoundError: an input or the directory of the table does not exist.
        TypeError: the source is of none of these kinds, or has values of another type.

    >>> import datetime
    >>> rows = [
    ...     {"id": 1, "name": "one", "day": datetime.date(2024, 2, 29)},
    ...     {"id": 2, "name": "two", "day": None},
    ... ]
    >>> with firndb.build_table(rows, "rows.firn", key="id") as table:
    ...     table.row("1")
    {'name': 'one', 'day': datetime.date(2024, 2, 29)}
    >>> with open("words.txt", "w") as file:
    ...     _ = file.write("hello world\\nfoo bar\\n")
    >>> with firndb.build_table("words.txt", "words.firn", filter=8) as table:
    ...     dict(sorted(table.items()))
    {b'foo': b'bar', b'hello': b'world'}
    """
    options = _options(key, row_number, value, format, separator, record, metadata, dialect)
    options |= {
        "duplicates": duplicates,
        "on_error": on_error,
        "order": order,
        "block_size": block_size,
        "compression": compression,
        "level": level,
        "filter": 0 if filter is None else filter,
        "memory_bytes": memory_bytes,
        "temp_dir": temp_dir,
        "threads": threads,
        "overwrite": overwrite,
        "approximate": None,
    }
    if metadata is None and isinstance(source, Table):
        options["metadata"] = source.metadata
    _build(source, path, options, progress)
    return Table(path)


def build_approximate_table(
    source: Source,
    path: Path,
    *,
    value_width: int = 8,
    fingerprint_bits: int = 16,
    key: str | Sequence[str] | None = None,
    row_number: bool = False,
    value: str | None = None,
    format: _Format | None = None,
    separator: Bytes | None = None,
    duplicates: Literal["error", "first", "last"] = "error",
    on_error: Literal["stop", "skip"] = "stop",
    memory_bytes: int | None = None,
    temp_dir: Path | None = None,
    threads: int | None = None,
    metadata: Bytes | None = None,
    overwrite: bool = False,
    progress: Progress = None,
    **dialect: Unpack[Dialect],
) -> ApproximateTable:
    """Builds an approximate table and opens it: values of one width, and no keys.

    Args:
        source: where the records come from; see `build_table`.
        path: the file to write.
        value_width: bytes of every value, 1 to 16.
        fingerprint_bits: an absent key is found with a probability of 1 in 2 to the power of this
            number, 0 to 32.
        key: the column of the key; needed for all rows with columns.
        value: the column of the value.

    The other arguments and the errors are those of `build_table`. A value of another width is a row
    that cannot be used.

    >>> pairs = [(f"user {n}", n.to_bytes(4, "little")) for n in range(1000)]
    >>> table = firndb.build_approximate_table(pairs, "ids.firn", value_width=4)
    >>> int.from_bytes(table["user 7"], "little")
    7
    >>> table.close()
    """
    options = _options(key, row_number, value, format, separator, False, metadata, dialect)
    options |= {
        "duplicates": duplicates,
        "on_error": on_error,
        "order": "hash",
        "block_size": None,
        "compression": None,
        "level": None,
        "filter": 0,
        "memory_bytes": memory_bytes,
        "temp_dir": temp_dir,
        "threads": threads,
        "overwrite": overwrite,
        "approximate": (value_width, fingerprint_bits),
    }
    _build(source, path, options, progress)
    return ApproximateTable(path)


def _options(
    key: str | Sequence[str] | None,
    row_number: bool,
    value: str | Sequence[str] | None,
    format: str | None,
    separator: Bytes | None,
    record: bool,
    metadata: Bytes | None,
    dialect: Dialect,
) -> dict[str, Any]:
    """How the source is read."""
    if key is not None and row_number:
        raise ValueError("key and row_number exclude each other")
    return {
        "keys": _names(key),
        "row_number": row_number,
        "values": _names(value),
        "format": format,
        "separator": None if separator is None else _bytes(separator),
        "dialect": dialect_options(**dialect),
        "record": record,
        "metadata": b"" if metadata is None else _bytes(metadata),
    }


def _names(names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def _bytes(value: Bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _build(source: Source, path: Path, options: dict[str, Any], progress: Progress) -> None:
    """Builds a table of either kind, and warns about what was left out."""
    for name in ("block_size", "memory_bytes", "threads"):
        number = options[name]
        if isinstance(number, int) and number < 0:
            raise ValueError(f"{name} is negative: {number}")
    kind, items = classify(source)
    unit = "B" if kind == "files" else " rows"
    with (
        reporting(progress, "reading", unit) as reading,
        reporting(progress, "writing", " records") as writing,
    ):
        report = _native.build_table(kind, items, os.fspath(path), options, reading, writing)
    if report["skipped"]:
        reasons = "; ".join(report["reasons"])
        more = "; ..." if report["skipped"] > len(report["reasons"]) else ""
        message = f"{report['skipped']:,} of {report['rows']:,} rows were skipped: {reasons}{more}"
        warnings.warn(message, FirnWarning, stacklevel=3)
    for column in report["absent"]:
        message = f"no row has the column `{column}`: it is null everywhere"
        warnings.warn(message, FirnWarning, stacklevel=3)


def is_path(source: object) -> bool:
    """Whether a source names a file."""
    return isinstance(source, str | os.PathLike)


def classify(source: Any) -> tuple[str, Any]:
    """The kind of a source, and the object that the native build takes for it.

    Raises:
        TypeError: the source is of no kind that can be built from.
    """
    if is_path(source):
        return "files", [os.fspath(source)]
    if isinstance(source, list | tuple) and source and all(is_path(path) for path in source):
        return "files", [os.fspath(path) for path in source]
    if isinstance(source, _native.Table):
        return "table", source
    if isinstance(source, _native.LogStore | _native.Snapshot):
        return "log", source
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return "arrow", source
    if isinstance(source, Mapping):
        return "pairs", source.items()
    if isinstance(source, bytes | bytearray | memoryview) or not isinstance(source, Iterable):
        name = type(source).__name__
        raise TypeError(
            "the source is a path or paths, Arrow data, a mapping, or an iterable of pairs or "
            f"dictionaries, not {name}"
        )
    items = iter(source)
    for first in items:
        kind = "dicts" if isinstance(first, Mapping) else "pairs"
        return kind, chain([first], items)
    return "pairs", items
