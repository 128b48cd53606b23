"""Tables: static key-value stores."""

from __future__ import annotations

import os
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from typing import Any, Self, TypeVar

from firndb import _native
from firndb._arrow import ArrowExport
from firndb._stats import Stats, Verification, table_html

_Table = TypeVar("_Table")


class TableStats(Stats):
    """Counts, sizes and options of a table, from `Table.stats()`."""

    records: int
    order: str
    blocks: int
    block_size: int
    block_bytes: int
    longest_block_bytes: int
    key_bytes: int
    value_bytes: int
    longest_key_bytes: int
    longest_value_bytes: int
    file_bytes: int
    filter_bytes: int
    index_bytes: int
    memory_bytes: int
    compression: str
    level: int | None
    filter: int
    seed: int


class ShardedTableStats(Stats):
    """Counts and sizes of a sharded table: the sums of its shards."""

    shards: int
    records: int
    smallest_shard_records: int
    largest_shard_records: int
    blocks: int
    key_bytes: int
    value_bytes: int
    file_bytes: int
    filter_bytes: int
    index_bytes: int
    memory_bytes: int


class ApproximateTableStats(Stats):
    """Counts, sizes and options of an approximate table."""

    records: int
    shards: int
    value_width: int
    fingerprint_bits: int
    false_positives: float
    hash_bytes: int
    slot_bytes: int
    file_bytes: int
    memory_bytes: int
    seed: int


class _Values(ValuesView[Any]):
    """The values of a table, read in the order of the file."""

    _mapping: Any

    def __iter__(self) -> Iterator[Any]:
        iterator: Iterator[Any] = self._mapping._iter_values()
        return iterator

    def __contains__(self, value: object) -> bool:
        return any(found == value for found in self)


class _Items(ItemsView[Any, Any]):
    """The records of a table, read in the order of the file."""

    _mapping: Any

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        iterator: Iterator[tuple[Any, Any]] = self._mapping._iter_items()
        return iterator


def _open(cls: Callable[..., _Table], location: Any, options: dict[str, Any]) -> _Table:
    return cls(location, **options)


def _shown(table: Any, kind: str, location: object) -> str:
    if table.closed:
        return f"<firndb.{kind} {location!r}, closed>"
    return f"<firndb.{kind} {location!r}, {len(table):,} records>"


class Table(_native.Table, ArrowExport, Mapping[Any, Any]):
    """A table: keys and values in one file that never changes. `build_table` builds one.

    A table is a `Mapping` of `bytes` to `bytes`. Keys may be given as `str`, which stands for its
    UTF-8 bytes. It is also a source of Arrow data: pyarrow, pandas, polars and duckdb read it.
    With `order="key"` of `build_table`, `range` and `prefix` read keys in their order, and
    iterations go in that order.

    Args:
        path: the file.
        access: how blocks are read. "map", the default, reads a mapping of the file: if the disk
            cannot read a page, the process ends with SIGBUS. "buffered" reads with system calls,
            "direct" reads without the page cache, and "resident" loads the file into memory when
            the table is opened, for the fastest gets.
        decode: return keys and values as `str`, decoded as UTF-8, instead of `bytes`.

    Raises:
        NotFoundError: there is no such file.
        CorruptError: the file is damaged, or is not a table.
        UnsupportedVersionError: a newer release built the file.

    Threads and processes can share a table. It can be pickled: a copy in another process opens the
    same path.

    >>> table = firndb.build_table({"Oslo": "59.91 N", "Bergen": "60.39 N"}, "cities.firn")
    >>> table["Oslo"]
    b'59.91 N'
    >>> table.get("Trondheim", b"unknown")
    b'unknown'
    >>> table.get_many(["Bergen", "Trondheim"])
    [b'60.39 N', None]
    >>> len(table), "Oslo" in table
    (2, True)
    >>> table.close()

    The values of a table that was built from rows are records of columns:

    >>> rows = [{"id": 7, "name": "seven", "price": 1.5}, {"id": 8, "name": "eight", "price": None}]
    >>> with firndb.build_table(rows, "prices.firn", key="id") as table:
    ...     table.columns, table.row("7")
    (['name', 'price'], {'name': 'seven', 'price': 1.5})
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def values(self) -> ValuesView[Any]:
        """A view of the values, in the order of the keys."""
        return _Values(self)

    def items(self) -> ItemsView[Any, Any]:
        """A view of the keys and values."""
        return _Items(self)

    @property
    def path(self) -> str:
        """The path that was opened."""
        return os.fspath(self._location()[0])

    def stats(self) -> TableStats:
        """Counts, sizes and options of the table."""
        return TableStats(self._stats())

    def verify(self) -> Verification:
        """Checks every byte of the file, and that a get finds each record.

        Takes time proportional to the file. Other threads run meanwhile.

        Raises:
            CorruptError: the file is damaged; the error has the file and usually the offset.
        """
        return Verification.of(self._verify())

    def __reduce__(self) -> tuple[Any, ...]:
        if self.closed:
            raise ValueError("the table is closed")
        options = {"access": self.access, "decode": self.decode}
        return (_open, (type(self), os.path.abspath(self.path), options))

    def __repr__(self) -> str:
        return _shown(self, type(self).__name__, self.path)

    def _repr_html_(self) -> str:
        return table_html(["", "Table"], [["path", self.path], *_figures(self)])


class ShardedTable(_native.ShardedTable, ArrowExport, Mapping[Any, Any]):
    """A table in several files, each with the keys of one shard. It has the methods of `Table`.

    Args:
        paths: a directory with the files `shard-00000.table`, `shard-00001.table` and so on, or
            the files of all shards in their order.
        access: how blocks are read; see `Table`.
        decode: return keys and values as `str` instead of `bytes`.

    Raises:
        InvalidArgumentError: there is no shard, a shard is missing, or they do not fit together.
        NotFoundError: a file does not exist.
        CorruptError: a file is damaged.

    `shard_of(key, shards)` names the shard that a key belongs to.

    >>> import os
    >>> os.mkdir("cities")
    >>> cities = {"Oslo": "59.91 N", "Bergen": "60.39 N", "Bodo": "67.28 N"}
    >>> for shard in range(2):
    ...     records = {k: v for k, v in cities.items() if firndb.shard_of(k, 2) == shard}
    ...     firndb.build_table(records, f"cities/shard-{shard:05}.table").close()
    >>> with firndb.ShardedTable("cities") as table:
    ...     table.shards, len(table), table["Bodo"]
    (2, 3, b'67.28 N')
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def values(self) -> ValuesView[Any]:
        """A view of the values, in the order of the keys."""
        return _Values(self)

    def items(self) -> ItemsView[Any, Any]:
        """A view of the keys and values."""
        return _Items(self)

    @property
    def paths(self) -> list[str]:
        """The directory or the files that were opened."""
        return [os.fspath(path) for path in self._location()]

    def stats(self) -> ShardedTableStats:
        """Counts and sizes of all shards together."""
        return ShardedTableStats(self._stats())

    def verify(self) -> Verification:
        """Checks every byte of the files, that a get finds each record, and that each key is in
        its shard.

        Raises:
            CorruptError: a file is damaged, or a key is in another shard.
        """
        return Verification.of(self._verify())

    def __reduce__(self) -> tuple[Any, ...]:
        if self.closed:
            raise ValueError("the table is closed")
        options = {"access": self.access, "decode": self.decode}
        paths = [os.path.abspath(path) for path in self.paths]
        location = paths[0] if self._is_dir() else paths
        return (_open, (type(self), location, options))

    def __repr__(self) -> str:
        return _shown(self, type(self).__name__, self.paths[0])

    def _repr_html_(self) -> str:
        return table_html(["", "ShardedTable"], [["path", self.paths[0]], *_figures(self)])


class ApproximateTable(_native.ApproximateTable):
    """A table that stores no keys: values of one width, found with a small probability of error.

    A key that was added returns its value. Any other key returns nothing or, with a probability of
    1 in 2 to the power of `stats().fingerprint_bits`, a wrong value. Keys cannot be listed, so this
    is not a `Mapping`. `build_approximate_table` builds one.

    Args:
        path: the file.
        access: how the file is read; see `Table`.

    Raises:
        NotFoundError: there is no such file.
        CorruptError: the file is damaged, or is not an approximate table.

    >>> pairs = [("a", b"\\x01"), ("b", b"\\x02")]
    >>> table = firndb.build_approximate_table(pairs, "ab.firn", value_width=1)
    >>> table["a"], len(table)
    (b'\\x01', 2)
    >>> table.close()
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Without keys there is nothing to iterate over.
    __iter__ = None

    @property
    def path(self) -> str:
        """The path that was opened."""
        return os.fspath(self._location()[0])

    def stats(self) -> ApproximateTableStats:
        """Counts, sizes and options of the table."""
        return ApproximateTableStats(self._stats())

    def verify(self) -> Verification:
        """Checks every byte of the file.

        Raises:
            CorruptError: the file is damaged.
        """
        return Verification.of(self._verify())

    def __reduce__(self) -> tuple[Any, ...]:
        if self.closed:
            raise ValueError("the table is closed")
        return (_open, (type(self), os.path.abspath(self.path), {"access": self.access}))

    def __repr__(self) -> str:
        return _shown(self, type(self).__name__, self.path)

    def _repr_html_(self) -> str:
        return table_html(["", "ApproximateTable"], [["path", self.path], *_figures(self)])


def _figures(table: Table | ShardedTable | ApproximateTable) -> list[list[object]]:
    """What notebooks show of a table."""
    if table.closed:
        return [["state", "closed"]]
    figures: list[list[object]] = [["records", f"{len(table):,}"]]
    figures.append(["file bytes", f"{table.stats().file_bytes:,}"])
    if not isinstance(table, ApproximateTable) and table.columns is not None:
        figures.append(["columns", ", ".join(table.columns)])
    return figures
