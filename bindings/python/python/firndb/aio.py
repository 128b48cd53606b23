"""FirnDB for asyncio: the same stores, with coroutines for calls that wait.

Batch calls, and everything that waits for a disk, a network or a lock, run in a thread of an
executor, so that the event loop goes on. Single gets from memory take less time than a switch of
threads, and are made directly. Properties are those of the store: `store.sync_store.path`.

If a task is cancelled while it waits, the call goes on in its thread, and its result is discarded:
a write may still be made. A store whose opening is cancelled is closed.

Examples:
    >>> import asyncio, firndb.aio
    >>> async def visit() -> None:
    ...     async with firndb.aio.open_log("visits") as store:
    ...         await store.put_many({"ann": "1", "ben": "2"})
    ...         print(await store.get("ann"), await store.get_many(["ben", "carl"]))
    ...         print(sorted([key async for key in store]))
    >>> asyncio.run(visit())
    b'1' [b'2', None]
    [b'ann', b'ben']
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any, Literal, TypeAlias

import firndb
from firndb._aio import (
    AsyncBlock,
    AsyncMapping,
    AsyncRecords,
    AsyncStore,
    Key,
    Opening,
    threaded,
)
from firndb._build import Source
from firndb._catalog_reader import OnError, TableAccess, _ErrorReport
from firndb._native import Batch, Generation
from firndb._progress import Progress
from firndb._schema import SchemaLike
from firndb._search import Query
from firndb._times import Duration, seconds

__all__ = [
    "AsyncApproximateTable",
    "AsyncCatalog",
    "AsyncCatalogReader",
    "AsyncChange",
    "AsyncCollection",
    "AsyncCollectionReader",
    "AsyncFeed",
    "AsyncIndexer",
    "AsyncLogStore",
    "AsyncShardedTable",
    "AsyncSnapshot",
    "AsyncStore",
    "AsyncTable",
    "Opening",
    "build_approximate_table",
    "build_collection",
    "build_table",
    "open_approximate_table",
    "open_catalog",
    "open_collection",
    "open_indexer",
    "open_log",
    "open_sharded_table",
    "open_table",
]

AnyPath: TypeAlias = str | os.PathLike[str]


class AsyncSnapshot(AsyncRecords[firndb.Snapshot]):
    """The asynchronous form of `firndb.Snapshot`."""


class AsyncLogStore(AsyncRecords[firndb.LogStore]):
    """The asynchronous form of `firndb.LogStore`: `open_log` opens one.

    Writes run in threads, because they may wait for a disk.
    """

    def __init__(self, sync_store: firndb.LogStore, *, executor: Executor | None = None) -> None:
        super().__init__(sync_store, executor=executor)
        self._is_in_memory = sync_store._access == "map"

    put = threaded(firndb.LogStore.put)
    delete = threaded(firndb.LogStore.delete)
    put_many = threaded(firndb.LogStore.put_many)
    compare_and_set = threaded(firndb.LogStore.compare_and_set)
    append = threaded(firndb.LogStore.append)
    setdefault = threaded(firndb.LogStore.setdefault)
    pop = threaded(firndb.LogStore.pop)
    popitem = threaded(firndb.LogStore.popitem)
    clear = threaded(firndb.LogStore.clear)
    expiry = threaded(firndb.LogStore.expiry)
    set_expiry = threaded(firndb.LogStore.set_expiry)
    refresh = threaded(firndb.LogStore.refresh)
    promote = threaded(firndb.LogStore.promote)
    sync = threaded(firndb.LogStore.sync)
    compact = threaded(firndb.LogStore.compact)
    maintain = threaded(firndb.LogStore.maintain)
    stats = threaded(firndb.LogStore.stats)
    backup = threaded(firndb.LogStore.backup)
    verify = threaded(firndb.LogStore.verify)

    async def update(self, key: Any, change: Any = None, /, **more: Any) -> Any:
        """Replaces the value of a key by the result of a function, or puts the items of a mapping:
        see `LogStore.update`. The function is called in the thread.

        Examples:
            >>> import asyncio, firndb.aio
            >>> async def count() -> None:
            ...     async with firndb.aio.open_log("counters") as store:
            ...         add = lambda old: str(int(old or 0) + 1)
            ...         await asyncio.gather(*(store.update("visits", add) for _ in range(20)))
            ...         print(await store.get("visits"))
            >>> asyncio.run(count())
            b'20'
        """
        update: Callable[..., Any] = self._sync_store.update
        return await self._run(update, key, change, **more)

    @contextlib.asynccontextmanager
    async def batch(self, *, sync: bool | None = None) -> AsyncIterator[Batch]:
        """Changes that are made together, at the end of the block, or not at all.

        Args:
            sync: whether to wait until they survive power loss.

        Examples:
            >>> import asyncio, firndb.aio
            >>> async def move() -> None:
            ...     async with firndb.aio.open_log("s") as store, store.batch() as batch:
            ...         batch.put("a", "1")
            ...         batch.delete("b")
            >>> asyncio.run(move())
        """
        batch = self._sync_store.batch(sync=sync)
        yield batch
        await self._run(batch.commit)

    async def snapshot(self) -> AsyncSnapshot:
        """The store as it is now: close it after use."""
        snapshot = await self._run(self._sync_store.snapshot)
        result = AsyncSnapshot(snapshot, executor=self._executor)
        result._is_in_memory = self._is_in_memory
        return result


class AsyncTable(AsyncMapping[firndb.Table]):
    """The asynchronous form of `firndb.Table`: `open_table` opens one."""

    def __init__(self, sync_store: firndb.Table, *, executor: Executor | None = None) -> None:
        super().__init__(sync_store, executor=executor)
        self._is_in_memory = sync_store.access in ("map", "resident")

    def range(
        self, start: Key | None = None, end: Key | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[Any, Any]]:
        """Iterates over the items of a range of keys: see `firndb.Table.range`."""
        return self._iterate(lambda: self.sync_store.range(start, end, reverse=reverse))

    def prefix(self, prefix: Key, *, reverse: bool = False) -> AsyncIterator[tuple[Any, Any]]:
        """Iterates over the items whose keys begin with `prefix`."""
        return self._iterate(lambda: self.sync_store.prefix(prefix, reverse=reverse))

    row = threaded(firndb.Table.row)
    rows = threaded(firndb.Table.rows)
    stats = threaded(firndb.Table.stats)
    verify = threaded(firndb.Table.verify)
    to_arrow = threaded(firndb.Table.to_arrow)
    to_pandas = threaded(firndb.Table.to_pandas)
    to_polars = threaded(firndb.Table.to_polars)


class AsyncShardedTable(AsyncMapping[firndb.ShardedTable]):
    """The asynchronous form of `firndb.ShardedTable`: `open_sharded_table` opens one."""

    def __init__(
        self, sync_store: firndb.ShardedTable, *, executor: Executor | None = None
    ) -> None:
        super().__init__(sync_store, executor=executor)
        self._is_in_memory = sync_store.access in ("map", "resident")

    row = threaded(firndb.ShardedTable.row)
    rows = threaded(firndb.ShardedTable.rows)
    stats = threaded(firndb.ShardedTable.stats)
    verify = threaded(firndb.ShardedTable.verify)
    to_arrow = threaded(firndb.ShardedTable.to_arrow)
    to_pandas = threaded(firndb.ShardedTable.to_pandas)
    to_polars = threaded(firndb.ShardedTable.to_polars)


class AsyncApproximateTable(AsyncStore[firndb.ApproximateTable]):
    """The asynchronous form of `firndb.ApproximateTable`: `open_approximate_table` opens one."""

    async def get(self, key: Key, default: Any = None) -> Any:
        """The value of a key that was added. For any other key `default`, or a wrong value."""
        if self._sync_store.access in ("map", "resident"):
            return self._sync_store.get(key, default)
        return await self._run(self._sync_store.get, key, default)

    def __len__(self) -> int:
        return len(self._sync_store)

    def __bool__(self) -> bool:
        return True

    get_many = threaded(firndb.ApproximateTable.get_many)
    stats = threaded(firndb.ApproximateTable.stats)
    verify = threaded(firndb.ApproximateTable.verify)


class AsyncCollectionReader(AsyncStore[firndb.CollectionReader]):
    """The asynchronous form of `firndb.CollectionReader`: queries of one version."""

    search = threaded(firndb.CollectionReader.search)
    count = threaded(firndb.CollectionReader.count)
    facets = threaded(firndb.CollectionReader.facets)
    group = threaded(firndb.CollectionReader.group)
    aggregate = threaded(firndb.CollectionReader.aggregate)
    explain = threaded(firndb.CollectionReader.explain)
    stats = threaded(firndb.CollectionReader.stats)
    verify = threaded(firndb.CollectionReader.verify)
    warm = threaded(firndb.CollectionReader.warm)

    def scan(self, query: Query = None, *args: Any, **options: Any) -> AsyncIterator[firndb.Hits]:
        """Finds all matches of a condition in batches: see `CollectionReader.scan`."""
        scan = functools.partial(self._sync_store.scan, query, *args, **options)
        return self._iterate(scan, at_a_time=1)

    def __len__(self) -> int:
        return len(self._sync_store)

    def __bool__(self) -> bool:
        return True


class AsyncCollection(AsyncStore[firndb.Collection]):
    """The asynchronous form of `firndb.Collection`: `open_collection` opens one.

    Examples:
        >>> import asyncio, firndb.aio
        >>> async def query() -> None:
        ...     rows = ({"city": "Oslo", "price": n} for n in range(100))
        ...     async with firndb.aio.build_collection(rows, path="rooms") as rooms:
        ...         print(await rooms.count("price < 10"))
        ...         page = await rooms.search("city = 'Oslo' order by price limit 2", "price")
        ...         print(page.to_dicts())
        >>> asyncio.run(query())
        10
        [{'price': 0}, {'price': 1}]
    """

    search = threaded(firndb.Collection.search)
    count = threaded(firndb.Collection.count)
    facets = threaded(firndb.Collection.facets)
    group = threaded(firndb.Collection.group)
    aggregate = threaded(firndb.Collection.aggregate)
    explain = threaded(firndb.Collection.explain)
    stats = threaded(firndb.Collection.stats)
    verify = threaded(firndb.Collection.verify)
    warm = threaded(firndb.Collection.warm)
    refresh = threaded(firndb.Collection.refresh)
    compact = threaded(firndb.Collection.compact)

    def scan(self, query: Query = None, *args: Any, **options: Any) -> AsyncIterator[firndb.Hits]:
        """Finds all matches of a condition in batches: see `Collection.scan`."""
        scan = functools.partial(self._sync_store.scan, query, *args, **options)
        return self._iterate(scan, at_a_time=1)

    def reader(self) -> AsyncCollectionReader:
        """The current version, which never changes."""
        return AsyncCollectionReader(self._sync_store.reader(), executor=self._executor)

    @contextlib.asynccontextmanager
    async def change(self) -> AsyncIterator[AsyncChange]:
        """A change of the partitions, committed at the end of the block: see `Collection.change`.
        """
        change = await self._run(self._sync_store.change)
        async with AsyncChange(change, executor=self._executor) as wrapped:
            yield wrapped

    def __len__(self) -> int:
        return len(self._sync_store)

    def __bool__(self) -> bool:
        return True


class AsyncChange(AsyncBlock[firndb.Change]):
    """The asynchronous form of `firndb.Change`: the end of the block commits it."""

    put = threaded(firndb.Change.put)
    put_by = threaded(firndb.Change.put_by)
    remove = threaded(firndb.Change.remove)
    commit = threaded(firndb.Change.commit)
    discard = threaded(firndb.Change.discard)


class AsyncCatalogReader(AsyncStore[firndb.CatalogReader]):
    """The asynchronous form of `firndb.CatalogReader`: `AsyncCatalog.reader` opens one."""

    @property
    def current(self) -> Generation:
        """The open version. Never waits: see `CatalogReader.current`."""
        return self._sync_store.current

    @property
    def name(self) -> str:
        """The name that the reader follows."""
        return self._sync_store.name

    def collection(self) -> AsyncCollectionReader:
        """The collection of the open version.

        Raises:
            InvalidArgumentError: the version is of another kind.
        """
        return AsyncCollectionReader(self.current.collection(), executor=self._executor)

    def table(self) -> AsyncTable:
        """The table of the open version.

        Raises:
            InvalidArgumentError: the version is of another kind.
        """
        return AsyncTable(self.current.table(), executor=self._executor)

    refresh = threaded(firndb.CatalogReader.refresh)
    stats = threaded(firndb.CatalogReader.stats)

    async def changes(
        self,
        timeout: Duration | None = None,
        *,
        interval: Duration = 1.0,
        on_error: OnError | None = None,
    ) -> AsyncIterator[Generation]:
        """Iterates over the generations that the reader switches to from now on.

        Calls `refresh` periodically, in a thread that is not kept meanwhile. Ends when the reader
        is closed. Cancel the task to end it earlier.

        Args:
            timeout: end when no new version has come for this time: seconds or a `timedelta`. By
                default never.
            interval: the time between two calls; the actual pause is 0.75 to 1.25 times as long.
            on_error: called with the exception of each failed refresh. By default an error is
                logged when it differs from the one before.
        """
        patience = None if timeout is None else seconds(timeout, "timeout")
        pause = seconds(interval, "interval")
        report = _ErrorReport(self.name, on_error)
        last, since = self.current.number, time.monotonic()
        while True:
            try:
                await self.refresh()
            except Exception as error:
                if self.closed:
                    return
                report.failure(error)
            else:
                report.success()
            try:
                current = self.current
            except ValueError:
                return  # It was closed.
            if current.number != last:
                last = current.number
                yield current
                since = time.monotonic()
                continue
            left = pause * random.uniform(0.75, 1.25)
            if patience is not None:
                left = min(left, since + patience - time.monotonic())
                if left <= 0:
                    return
            await asyncio.sleep(left)


class AsyncCatalog(AsyncStore[firndb.Catalog]):
    """The asynchronous form of `firndb.Catalog`: `open_catalog` opens one."""

    names = threaded(firndb.Catalog.names)
    versions = threaded(firndb.Catalog.versions)
    newest = threaded(firndb.Catalog.newest)
    version = threaded(firndb.Catalog.version)
    stage = threaded(firndb.Catalog.stage)
    publish_staged = threaded(firndb.Catalog.publish_staged)
    rollback = threaded(firndb.Catalog.rollback)
    pin = threaded(firndb.Catalog.pin)
    unpin = threaded(firndb.Catalog.unpin)
    pins = threaded(firndb.Catalog.pins)
    clean = threaded(firndb.Catalog.clean)
    verify = threaded(firndb.Catalog.verify)
    diff = threaded(firndb.Catalog.diff)
    pull = threaded(firndb.Catalog.pull)

    async def publish(
        self,
        name: str,
        path: AnyPath,
        *,
        labels: dict[str, str] | None = None,
        verify: bool = False,
        if_changed: bool = False,
        progress: Progress = None,
    ) -> firndb.Published | None:
        """Publishes a table or collection as the next version of a name: see `Catalog.publish`.

        Returns:
            the result, or `None` if nothing has changed and `if_changed` is set.
        """
        return await self._run(
            self._sync_store.publish,
            name,
            path,
            labels=labels,
            verify=verify,
            if_changed=if_changed,
            progress=progress,
        )

    def reader(
        self,
        name: str,
        cache_dir: AnyPath,
        *,
        version: int | firndb.Version | None = None,
        access: TableAccess = "map",
        warm: bool | None = None,
        bundle_limit_bytes: int | None = None,
        cache_bytes: int | None = None,
        threads: int = 8,
    ) -> Opening[AsyncCatalogReader]:
        """Opens the newest version of a name, and later its successors: see `CatalogReader`.

        Examples:
            >>> import asyncio, firndb.aio
            >>> async def read() -> None:
            ...     await firndb.aio.build_table({"Oslo": "cold"}, "1.table")
            ...     async with firndb.aio.open_catalog("catalog", create=True) as catalog:
            ...         await catalog.publish("weather", "1.table")
            ...         async with catalog.reader("weather", "cache") as reader:
            ...             print(await reader.table().get("Oslo"))
            >>> asyncio.run(read())
            b'cold'
        """
        make = functools.partial(
            self._sync_store.reader,
            name,
            cache_dir,
            version=version,
            access=access,
            warm=warm,
            bundle_limit_bytes=bundle_limit_bytes,
            cache_bytes=cache_bytes,
            threads=threads,
        )
        return Opening(make, AsyncCatalogReader, self._executor)


class AsyncFeed(AsyncBlock[firndb.Feed]):
    """The asynchronous form of `firndb.Feed`: the end of the block applies everything at once."""

    add = threaded(firndb.Feed.add)
    add_many = threaded(firndb.Feed.add_many)
    remove = threaded(firndb.Feed.remove)
    left_out = threaded(firndb.Feed.left_out)
    finish = threaded(firndb.Feed.finish)
    discard = threaded(firndb.Feed.discard)

    @property
    def applied(self) -> firndb.Applied:
        """The effect, after the end of the block."""
        return self._sync_store.applied


class AsyncIndexer(AsyncStore[firndb.Indexer]):
    """The asynchronous form of `firndb.Indexer`: `open_indexer` opens one."""

    apply = threaded(firndb.Indexer.apply)
    upsert = threaded(firndb.Indexer.upsert)
    delete = threaded(firndb.Indexer.delete)
    publish = threaded(firndb.Indexer.publish)
    repartition = threaded(firndb.Indexer.repartition)
    status = threaded(firndb.Indexer.status)
    backup = threaded(firndb.Indexer.backup)

    async def publish_to(
        self, catalog: AsyncCatalog | firndb.Catalog, name: str
    ) -> firndb.Publication:
        """Publishes the collection, also as the next version of a name: see `Indexer.publish_to`.
        """
        target = catalog.sync_store if isinstance(catalog, AsyncCatalog) else catalog
        return await self._run(self._sync_store.publish_to, target, name)

    @contextlib.asynccontextmanager
    async def feed(
        self, source: str, *, max_removed: float | None = None
    ) -> AsyncIterator[AsyncFeed]:
        """A new version of everything that a source has, applied at the end of the block: see
        `Indexer.feed`."""
        feed = await self._run(self._sync_store.feed, source, max_removed=max_removed)
        async with AsyncFeed(feed, executor=self._executor) as wrapped:
            yield wrapped

    @contextlib.asynccontextmanager
    async def changes(self, source: str) -> AsyncIterator[AsyncFeed]:
        """Single changes of a source, applied at the end of the block: see `Indexer.changes`."""
        feed = await self._run(self._sync_store.changes, source)
        async with AsyncFeed(feed, executor=self._executor) as wrapped:
            yield wrapped


def open_log(
    path: AnyPath,
    mode: Literal["r", "w", "c", "x"] = "c",
    *,
    decode: bool = False,
    ordered: bool = False,
    durability: Literal["os", "sync"] = "os",
    access: Literal["map", "buffered"] = "map",
    segment_bytes: int | None = None,
    compaction_threshold: float | None = None,
    compaction_rate: int | None = None,
    checkpoint_bytes: int | None = None,
    background: bool = True,
    executor: Executor | None = None,
) -> Opening[AsyncLogStore]:
    """Opens a log store: `await open_log(path)`, or `async with open_log(path) as store`.

    Args:
        executor: its threads make the calls. The other arguments are those of `firndb.LogStore`.
    """
    make = functools.partial(
        firndb.LogStore,
        path,
        mode,
        decode=decode,
        ordered=ordered,
        durability=durability,
        access=access,
        segment_bytes=segment_bytes,
        compaction_threshold=compaction_threshold,
        compaction_rate=compaction_rate,
        checkpoint_bytes=checkpoint_bytes,
        background=background,
    )
    return Opening(make, AsyncLogStore, executor)


def open_collection(
    path: AnyPath | Sequence[AnyPath], *, threads: int = 1, executor: Executor | None = None
) -> Opening[AsyncCollection]:
    """Opens a collection: see `firndb.Collection`.

    Args:
        path: the directory of the collection, or partition files.
        threads: threads of a query.
        executor: its threads make the calls.
    """
    make = functools.partial(firndb.Collection, path, threads=threads)
    return Opening(make, AsyncCollection, executor)


def open_table(
    path: AnyPath,
    *,
    access: TableAccess = "map",
    decode: bool = False,
    executor: Executor | None = None,
) -> Opening[AsyncTable]:
    """Opens a table: see `firndb.Table`.

    Args:
        path: the file.
        access: how blocks are read.
        decode: return keys and values as `str`.
        executor: its threads make the calls.
    """
    make = functools.partial(firndb.Table, path, access=access, decode=decode)
    return Opening(make, AsyncTable, executor)


def open_sharded_table(
    paths: AnyPath | Iterable[AnyPath],
    *,
    access: TableAccess = "map",
    decode: bool = False,
    executor: Executor | None = None,
) -> Opening[AsyncShardedTable]:
    """Opens a table in several files: see `firndb.ShardedTable`.

    Args:
        paths: a directory, or the files of all shards.
        access: how blocks are read.
        decode: return keys and values as `str`.
        executor: its threads make the calls.
    """
    make = functools.partial(firndb.ShardedTable, paths, access=access, decode=decode)
    return Opening(make, AsyncShardedTable, executor)


def open_approximate_table(
    path: AnyPath, *, access: TableAccess = "map", executor: Executor | None = None
) -> Opening[AsyncApproximateTable]:
    """Opens an approximate table: see `firndb.ApproximateTable`.

    Args:
        path: the file.
        access: how the file is read.
        executor: its threads make the calls.
    """
    make = functools.partial(firndb.ApproximateTable, path, access=access)
    return Opening(make, AsyncApproximateTable, executor)


def open_catalog(
    location: AnyPath, *, create: bool = False, executor: Executor | None = None
) -> Opening[AsyncCatalog]:
    """Opens a catalog: see `firndb.Catalog`.

    Args:
        location: a directory or a URL.
        create: create a missing directory.
        executor: its threads make the calls.
    """
    make = functools.partial(firndb.Catalog, location, create=create)
    return Opening(make, AsyncCatalog, executor)


def open_indexer(
    path: AnyPath,
    schema: SchemaLike | None = None,
    *,
    partitions: int | None = None,
    partition_by: str | None = None,
    memory_bytes: int | None = None,
    threads: int = 0,
    max_removed: float | None = None,
    executor: Executor | None = None,
) -> Opening[AsyncIndexer]:
    """Opens an index.

    Args:
        executor: its threads make the calls. The other arguments are those of `firndb.Indexer`.

    Examples:
        >>> import asyncio, firndb.aio
        >>> async def index() -> None:
        ...     async with firndb.aio.open_indexer("i", {"price": "i64"}) as index:
        ...         async with index.feed("rooms") as feed:
        ...             await feed.add("1", {"price": 80})
        ...         print(feed.applied.added, (await index.publish()).documents)
        >>> asyncio.run(index())
        1 1
    """
    make = functools.partial(
        firndb.Indexer,
        path,
        schema,
        partitions=partitions,
        partition_by=partition_by,
        memory_bytes=memory_bytes,
        threads=threads,
        max_removed=max_removed,
    )
    return Opening(make, AsyncIndexer, executor)


def build_table(
    source: Source, path: AnyPath, *, executor: Executor | None = None, **options: Any
) -> Opening[AsyncTable]:
    """Builds a table in a thread, and opens it: see `firndb.build_table`.

    Args:
        source: the records. An iterable is iterated in the thread.
        path: the file.
        executor: its threads make the calls.
        options: the options of `firndb.build_table`.
    """
    make = functools.partial(firndb.build_table, source, path, **options)
    return Opening(make, AsyncTable, executor)


def build_collection(
    source: Any,
    schema: SchemaLike | None = None,
    path: AnyPath | None = None,
    *,
    executor: Executor | None = None,
    **options: Any,
) -> Opening[AsyncCollection]:
    """Builds a collection in a thread, and opens it: see `firndb.build_collection`.

    Args:
        source: the rows. An iterable is iterated in the thread.
        schema: the fields.
        path: the directory.
        executor: its threads make the calls.
        options: the options of `firndb.build_collection`.
    """
    make = functools.partial(firndb.build_collection, source, schema, path, **options)
    return Opening(make, AsyncCollection, executor)


def build_approximate_table(
    source: Source, path: AnyPath, *, executor: Executor | None = None, **options: Any
) -> Opening[AsyncApproximateTable]:
    """Builds an approximate table in a thread: see `firndb.build_approximate_table`.

    Args:
        source: the records. An iterable is iterated in the thread.
        path: the file.
        executor: its threads make the calls.
        options: the options of `firndb.build_approximate_table`.
    """
    make = functools.partial(firndb.build_approximate_table, source, path, **options)
    return Opening(make, AsyncApproximateTable, executor)
