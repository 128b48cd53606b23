"""Log stores: mutable key-value stores."""

from __future__ import annotations

import os
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, overload

from firndb import _native
from firndb._arrow import ArrowExport
from firndb._progress import Progress, reporting
from firndb._stats import Stats, Verification, table_html

if TYPE_CHECKING:
    from firndb._native import BytesLike

Ttl: TypeAlias = float | timedelta
_UNSET: Any = object()


# `setdefault` needs a default here: there is no value `None`.
class LogStore(  # type: ignore[misc]
    _native.LogStore, ArrowExport, MutableMapping[Any, Any]
):
    """A mutable key-value store in a directory: a `MutableMapping` of `bytes`.

    Keys and values are given as `bytes`, `str` (encoded as UTF-8) or any buffer, and returned as
    `bytes`, or as `str` with `decode=True`. One process writes, with any number of threads; any
    number of other processes read the store meanwhile, and see later writes after `refresh()`.

    Args:
        path: the directory of the store.
        mode: "r" opens for reading only, "w" opens a store that exists, "c" creates it if there is
            none, "x" creates one that must not exist.
        decode: return keys and values as `str`.
        ordered: create the store as an ordered one: `range` and `prefix` read keys in their order,
            and iterations go in that order. A store that exists keeps its kind.
        durability: when a write returns: "os", once it survives a crash of the process, or "sync",
            once it survives power loss.
        access: how records are read: "map", through memory maps, or "buffered", with a read for
            each: slower, but a failing disk raises an exception instead of ending the process.
        segment_bytes: largest size of a file of the log, 4 KiB to 8 GiB. Stores of more than
            64 GiB use larger segments by themselves.
        compaction_threshold: stale share of a file from which on compaction copies the rest, 0.01
            to 0.99. By default 0.5.
        compaction_rate: bytes per second that compaction may copy. By default as many as it can.
        checkpoint_bytes: bytes of log between two checkpoints, which bounds what opening the store
            after a crash has to read. By default 256 MiB.
        background: do maintenance in threads of the store. Otherwise call `maintain()`.

    Raises:
        LockedError: another process or handle has the store open for writing.
        NotFoundError: there is no store, and the mode is "r" or "w".
        AlreadyExistsError: there is a store, and the mode is "x".
        CorruptError: durable data is damaged.

    >>> with firndb.LogStore("visits") as store:
    ...     store["ann"] = "1"
    ...     store.put("session/7", "ann", ttl=3600)
    ...     store.update("ann", lambda old: b"%d" % (int(old or 0) + 1))
    ...     sorted(store.items())
    b'2'
    [(b'ann', b'2'), (b'session/7', b'ann')]
    """

    __slots__ = ("__weakref__",)

    def keys(self) -> RecordKeysView:
        """A set-like view of the keys. An iteration shows the store as it was at its beginning."""
        return RecordKeysView(self)

    def values(self) -> RecordValuesView:
        """A view of the values. An iteration shows the store as it was at its beginning."""
        return RecordValuesView(self)

    def items(self) -> RecordItemsView:
        """A set-like view of the pairs of key and value, in the order of the keys if the store is
        ordered. An iteration shows the store as it was at its beginning."""
        return RecordItemsView(self)

    def put_many(
        self,
        items: Mapping[Any, Any] | Iterable[tuple[BytesLike, BytesLike]] | object,
        *,
        ttl: Ttl | None = None,
        expiry: datetime | None = None,
        sync: bool | None = None,
        progress: Progress = None,
    ) -> int:
        """Puts many records and returns their number. Much faster than one `put` for each, and
        other threads run meanwhile.

        Args:
            items: a mapping, an iterable of pairs of key and value, or an Arrow table with the
                columns `key` and `value` of binary or text (pyarrow, polars, pandas, duckdb).
            ttl: time to live of the records, in seconds or as a `timedelta`.
            expiry: when the records expire, as a `datetime` with a time zone.
            sync: whether to wait until all records survive power loss.
            progress: a function of the number of records so far and the total or `None`; `True` for
                a progress bar, `False` for none, by default a bar in a terminal or notebook.

        If an item is not valid or `items` raises an exception, the records before it stay in the
        store. Use `batch()` for changes that are made together or not at all.

        >>> store = firndb.LogStore("numbers")
        >>> store.put_many((str(n), str(n * n)) for n in range(1000))
        1000
        >>> store["31"]
        b'961'
        >>> store.close()
        """
        with reporting(progress, "put", "records") as report:
            return self._put_many(items, ttl, expiry, sync, report)

    @overload
    def update(
        self,
        key: BytesLike,
        change: Callable[[Any], BytesLike | None],
        /,
        *,
        ttl: Ttl | None = None,
        expiry: datetime | None = None,
        sync: bool | None = None,
    ) -> Any: ...

    @overload
    def update(self, items: Any = (), change: None = None, /, **more: Any) -> None: ...

    def update(self, key: Any = (), change: Any = None, /, **more: Any) -> Any:
        """Replaces the value of a key by the result of a function, atomically; or puts the items of
        a mapping, as `dict.update` does.

        `store.update(key, change)` calls `change` with the value of the key, or `None` if it is
        absent. What it returns is the new value; `None` deletes the key. It is called again if
        another thread or handle changes the key meanwhile, and may use the store. Returns the new
        value.

        Args:
            key: the key.
            change: the function.
            ttl, expiry: as in `put`. By default the record keeps its expiry.
            sync: as in `put`.

        `store.update(items)` puts the items of a mapping or an iterable of pairs, and
        `store.update(name=value)` those of keyword arguments. It is not atomic; see `put_many`.

        >>> with firndb.LogStore("counters") as store:
        ...     for _ in range(3):
        ...         last = store.update("visits", lambda old: str(int(old or 0) + 1))
        ...     store["visits"], last
        (b'3', '3')
        """
        if change is not None:
            options = [more.pop(name, None) for name in ("ttl", "expiry", "sync")]
            if more:
                raise TypeError(f"update() got an unexpected keyword argument {next(iter(more))!r}")
            if not callable(change):
                raise TypeError(f"change is a function of the old value, not {_name(change)}")
            return self._update(key, change, *options)
        if isinstance(key, str | bytes | bytearray | memoryview):
            raise TypeError("update takes a key and a function, or the items to put")
        self._put_many(key, None, None, None, None)
        if more:
            self._put_many(more, None, None, None, None)
        return None

    def set_expiry(
        self,
        key: BytesLike,
        expiry: datetime | None = _UNSET,
        *,
        ttl: Ttl | None = None,
        sync: bool | None = None,
    ) -> bool:
        """Changes when the record of a key expires, and leaves its value as it is. Returns `False`
        if the key is absent.

        Args:
            key: the key.
            expiry: a `datetime` with a time zone; `None` removes the expiry.
            ttl: time to live from now, in seconds or as a `timedelta`.
            sync: as in `put`.
        """
        if expiry is _UNSET:
            if ttl is None:
                raise TypeError("give expiry (None removes it) or ttl")
            expiry = None
        elif ttl is not None:
            raise ValueError("give ttl or expiry, not both")
        return self._set_expiry(key, ttl, expiry, sync)

    def snapshot(self) -> Snapshot:
        """The store as it is now: a `Mapping` that later writes do not change.

        >>> with firndb.LogStore("s") as store:
        ...     store["a"] = "old"
        ...     with store.snapshot() as snapshot:
        ...         store["a"] = "new"
        ...         snapshot["a"], store["a"]
        (b'old', b'new')
        """
        return Snapshot(self)

    def stats(self) -> LogStats:
        """The size of the store and counts of its operations since it was opened."""
        return LogStats(self._stats())

    def backup(self, path: str | os.PathLike[str]) -> LogBackup:
        """Makes a backup in a directory that is new or empty, or updates an earlier backup of this
        store there. Writing may continue. The backup holds everything written before the call, is
        durable when this returns, and can be opened like any store.

        Raises:
            AlreadyExistsError: the directory has something else in it. Nothing was changed.
            LockedError: a writer has the backup open.
        """
        return LogBackup(self._backup(path))

    def verify(self) -> Verification:
        """Reads and checks every record of the store, and the index.

        Raises:
            CorruptError: a record is damaged; the error has `path` and `offset`.
        """
        return Verification(self._verify())

    @staticmethod
    def restore(backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> LogRestored:
        """Makes a new store from a backup, or from any store that no process has open for writing.
        Checks every record and every copy.

        Args:
            backup: the directory of the backup.
            path: the directory of the new store: new or empty.
        """
        return LogRestored(_native._log_restore(backup, path))

    @staticmethod
    def repair(
        damaged: str | os.PathLike[str],
        path: str | os.PathLike[str] | None,
        *,
        progress: Progress = None,
    ) -> LogRepaired:
        """Copies every intact record of a damaged store into a new one. The damaged store is not
        changed.

        Args:
            damaged: the directory of the damaged store.
            path: the directory of the new store: new or empty. With `None` nothing is written, and
                the report says what a repair would find.
            progress: as in `put_many`, in bytes.
        """
        with reporting(progress, "repair", "B") as report:
            return LogRepaired(_native._log_repair(damaged, path, report))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.read_only:
            raise TypeError(
                "a LogStore that is open for writing cannot be pickled: its process alone may "
                "write; open it with mode 'r' in the other process"
            )
        if self.closed:
            raise ValueError("the store is closed")
        return (_reopen, (type(self), self.path, self.decode, self._access))

    def __copy__(self) -> Self:
        raise TypeError("a LogStore cannot be copied: use backup(), or dict(store)")

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __repr__(self) -> str:
        if self.closed:
            return f"<firndb.LogStore {self.path!r}, closed>"
        return f"<firndb.LogStore {self.path!r}, mode {self.mode!r}, {len(self)} keys>"

    def _repr_html_(self) -> str:
        if self.closed:
            return table_html(["LogStore", self.path], [["closed", "yes"]])
        stats = self.stats()
        rows: list[list[object]] = [
            ["mode", self.mode],
            ["keys", f"{stats.keys:,}"],
            ["bytes on disk", f"{stats.disk_bytes:,}"],
            ["bytes of live records", f"{stats.live_bytes:,}"],
            ["bytes of memory of the index", f"{stats.index_bytes:,}"],
        ]
        return table_html(["LogStore", self.path], rows)


def _reopen(cls: type[LogStore], path: str, decode: bool, access: Any) -> LogStore:
    return cls(path, "r", decode=decode, access=access)


def _name(value: object) -> str:
    return type(value).__name__


class Snapshot(_native.Snapshot, ArrowExport, Mapping[Any, Any]):
    """A log store at one moment: `LogStore.snapshot()` takes one.

    While it is open, the store keeps on disk what only the snapshot shows. Close it, or use it as a
    context manager. It may be used after its store is closed.
    """

    __slots__ = ("__weakref__",)

    def keys(self) -> RecordKeysView:
        """A set-like view of the keys."""
        return RecordKeysView(self)

    def values(self) -> RecordValuesView:
        """A view of the values."""
        return RecordValuesView(self)

    def items(self) -> RecordItemsView:
        """A set-like view of the pairs of key and value."""
        return RecordItemsView(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Snapshot cannot be pickled")

    def __repr__(self) -> str:
        return f"<firndb.Snapshot{', closed' if self.closed else ''}>"


class RecordKeysView(KeysView[Any]):
    """The keys of a store, as a set."""

    __slots__ = ()
    _mapping: LogStore | Snapshot

    def __repr__(self) -> str:
        return f"<keys of {self._mapping!r}>"


class RecordValuesView(ValuesView[Any]):
    """The values of a store."""

    __slots__ = ()
    _mapping: LogStore | Snapshot

    def __iter__(self) -> Iterator[Any]:
        return self._mapping._iter_values()

    def __contains__(self, value: object) -> bool:
        return any(value == found for found in self)

    def __repr__(self) -> str:
        return f"<values of {self._mapping!r}>"


class RecordItemsView(ItemsView[Any, Any]):
    """The pairs of key and value of a store, as a set."""

    __slots__ = ()
    _mapping: LogStore | Snapshot

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping._iter_items()

    def __repr__(self) -> str:
        return f"<items of {self._mapping!r}>"


class LogStats(Stats):
    """The state of a log store: `LogStore.stats()`. Counts begin when the store is opened; those of
    an interval are the difference of two states."""

    keys: int
    """Keys, including those whose records have expired and are not removed yet."""
    segments: int
    """Files of the log, including the active one."""
    disk_bytes: int
    """Bytes of these files, including reserved space that is not used yet."""
    held_bytes: int
    """Bytes of removed files that a snapshot or an iterator reads, or that wait for a sync."""
    live_bytes: int
    """Bytes of the newest records of all keys."""
    append_mode: str
    """How records are appended: "Map" or "Write"."""
    index_bytes: int
    """Bytes of memory of the index."""
    is_ordered: bool
    """Whether the store is ordered."""
    key_runs: int
    """Files with the sorted keys of an ordered store."""
    key_run_bytes: int
    """Bytes of these files, in addition to `disk_bytes`."""
    tail_bytes: int
    """Bytes of memory for sorted keys that are not in such a file yet."""
    puts: int
    """Puts."""
    deletes: int
    """Deletes."""
    user_bytes: int
    """Bytes of the keys and values of these."""
    log_bytes: int
    """Bytes appended to the log for these."""
    syncs: int
    """Syncs of the log, each shared by all writers that wait."""
    false_reads: int
    """Reads of a record that turned out to be another key's."""
    moved_bytes: int
    """Bytes that compaction appended."""
    moved_records: int
    """Records that compaction appended."""
    scanned_records: int
    """Records in the files that compaction went through."""
    removed_bytes: int
    """Bytes of the files that compaction removed."""
    compaction_seconds: float
    """Seconds that compaction took."""
    is_compacting: bool
    """Whether compaction copies records at this moment."""
    pending_segments: int
    """Files that wait for compaction."""
    maintenance_bytes: int
    """Bytes of hints, checkpoints and other maintenance files that were written."""
    backups: int
    """Backups made."""
    segments_removed: int
    """Files that compaction removed."""
    recovery: dict[str, Any]
    """What opening the store did."""
    seconds: float
    """Seconds since the store was opened."""
    segment_stats: list[dict[str, Any]]
    """The files, ordered by number."""

    @property
    def write_amplification(self) -> float:
        """Bytes appended to the log per byte of records written: 1 without compaction."""
        return (self.log_bytes + self.moved_bytes) / max(self.log_bytes, 1)


class LogBackup(Stats):
    """What `LogStore.backup` did."""

    segments: int
    """Files of the log in the backup."""
    kept: int
    """Of these, files that an earlier backup in the same directory had."""
    copied: int
    """Of these, files that were copied because no hard link was possible."""


class LogRestored(Stats):
    """What `LogStore.restore` did."""

    keys: int
    """Keys in the new store."""
    records: int
    """Records that were checked."""
    segments: int
    """Files of the log that were copied."""
    disk_bytes: int
    """Bytes of these files."""


class LogRepaired(Stats):
    """What `LogStore.repair` found."""

    keys: int
    """Keys in the new store."""
    records: int
    """Records with the right checksum, all of which were copied."""
    dropped: list[tuple[str, int, int]]
    """Bytes that were dropped: file, offset, number of bytes."""
