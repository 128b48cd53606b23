"""Indexers: feeds of documents in, a collection out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self, TypeAlias

from firndb import _native
from firndb._catalog import Catalog
from firndb._catalog_values import Published
from firndb._schema import Schema, SchemaLike, native_schema
from firndb._search import Collection
from firndb._stats import Stats

AnyPath: TypeAlias = str | os.PathLike[str]
Key: TypeAlias = bytes | bytearray | memoryview | str
Document: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Applied:
    """The effect of a feed or of single changes.

    Attributes:
        added: keys that are new to the source.
        updated: keys whose document has changed.
        removed: keys that were removed from the source.
        unchanged: keys whose document is unchanged.
        repeated: documents whose key occurred earlier in the same feed; the last one is used.
        dirty: partitions with changes, ascending.
    """

    added: int
    updated: int
    removed: int
    unchanged: int
    repeated: int
    dirty: list[str]


@dataclass(frozen=True)
class Publication:
    """The result of publishing an index.

    Attributes:
        version: the number of the published set of the collection.
        rebuilt: partitions that were rebuilt, ascending.
        removed: partitions that were removed, because they have no documents any more.
        documents: documents in the rebuilt partitions.
        size_bytes: the length of the files of the rebuilt partitions.
        published: the new version in the catalog, from `publish_to`; `None` if the newest version
            already is this collection.
    """

    version: int
    rebuilt: list[str]
    removed: list[str]
    documents: int
    size_bytes: int
    published: Published | None = None


@dataclass(frozen=True)
class IndexBackup:
    """The result of a backup of an index.

    Attributes:
        segments: segments of the log.
        kept_segments: of these, segments that an earlier backup in the directory already had.
        copied_segments: of these, segments that were copied because no hard link was possible.
        partitions: partitions of the collection.
    """

    segments: int
    kept_segments: int
    copied_segments: int
    partitions: int


class IndexStatus(Stats):
    """The contents of an index.

    Attributes:
        documents: published documents.
        partitions: partitions of the collection.
        size_bytes: the length of the files of the partitions.
        log_bytes: the length of the log.
        version: the number of the published set.
        dirty_partitions: the number of partitions with changes that are not published.
        dirty: their names, ascending.
        sources: the number of documents by the names of the sources.
    """

    documents: int
    partitions: int
    size_bytes: int
    log_bytes: int
    version: int
    dirty_partitions: int
    dirty: list[str]
    sources: dict[str, int]


class Feed(_native.Feed):
    """A feed or single changes in progress: see `Indexer.feed` and `Indexer.changes`.

    A context manager: the end of the block applies everything at once, and an exception discards
    everything. `applied` has the effect after the block.
    """

    def __init__(
        self,
        index: Indexer,
        source: str,
        is_whole: bool,
        max_removed: float | None = None,
    ) -> None:
        # `__new__` has taken the arguments.
        self._applied: Applied | None = None

    @property
    def applied(self) -> Applied:
        """The effect, after the end of the block.

        Raises:
            ValueError: the feed has not been applied.
        """
        if self._applied is None:
            raise ValueError("the feed has not been applied")
        return self._applied

    def finish(self) -> Applied:
        """Applies everything at once, as the end of the block does. Survives power loss.

        Raises:
            InvalidArgumentError: the feed would remove more documents than allowed. Nothing was
                changed.
            ValueError: the feed has ended.
        """
        self._applied = Applied(**self._finish())
        return self._applied

    def discard(self) -> None:
        """Discards everything, as an exception in the block does."""
        self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            if self._applied is None:
                self.finish()
            return
        try:
            self._discard()
        except ValueError:
            pass  # It has ended before. The exception of the block is the one to report.


class Indexer(_native.Indexer):
    """An index: the documents of all sources in a log, and the published collection.

    A source delivers documents by key. The index keeps them and tracks which partitions of the
    collection they belong to; `publish` rebuilds only the partitions with changes. One process at
    a time opens an index; any number of processes read `PATH/collection`.

    Args:
        path: the directory of the index, which is created if it is missing.
        schema: the fields of the documents: a `Schema`, or what makes one, such as a dictionary of
            names and types. By default the schema of the index, which must exist.
        partitions: the number of partitions by the hash of the key, 1 to 32,000, for each value of
            `partition_by` if that is set. By default 64 if `partition_by` is not set.
        partition_by: a field whose values are partitions. By default an existing index keeps its
            partitioning; `repartition` changes it.
        memory_bytes: memory for rebuilding partitions, 1 GiB by default.
        threads: threads that rebuild partitions; 0 is the number of processors.
        max_removed: the share of its documents, from 0 to 1, that a feed may remove from a source.
            By default half of them, or 100 if that is more, and none if rows were left out.

    Raises:
        InvalidArgumentError: the index has another schema or partitioning, or the schema is
            dynamic.
        NotFoundError: there is no index, and `schema` is not given.
        LockedError: another process has the index open.

    Examples:
        >>> schema = {"city": "string", "price": "f64"}
        >>> with firndb.Indexer("rooms.index", schema, partition_by="city") as index:
        ...     with index.feed("rooms") as feed:
        ...         feed.add("room 1", {"city": "Oslo", "price": 80.0})
        ...         feed.add("room 2", {"city": "Bergen", "price": 75.0})
        ...     print(feed.applied.added, feed.applied.dirty)
        ...     publication = index.publish()
        ...     index.upsert("rooms", "room 3", {"city": "Oslo", "price": 99.0})
        ...     print(index.publish().rebuilt)
        ...     print(index.collection.count("price > 79"))
        2 ['Bergen', 'Oslo']
        True
        ['Oslo']
        2
    """

    def __new__(
        cls,
        path: AnyPath,
        schema: SchemaLike | None = None,
        *,
        partitions: int | None = None,
        partition_by: str | None = None,
        memory_bytes: int | None = None,
        threads: int = 0,
        max_removed: float | None = None,
    ) -> Self:
        return super().__new__(
            cls,
            path,
            native_schema(schema),
            partitions=partitions,
            partition_by=partition_by,
            memory_bytes=memory_bytes,
            threads=threads,
            max_removed=max_removed,
        )

    def __init__(self, *args: object, **options: object) -> None:
        # `__new__` has taken the arguments.
        self._collection: Collection | None = None

    @property
    def schema(self) -> Schema:
        """The fields of the documents."""
        return Schema._of(self._schema())

    @property
    def collection(self) -> Collection:
        """The collection, as published last. Closing it does not close the index."""
        if self._collection is None or self._collection.closed:
            self._collection = Collection(os.path.join(self.path, "collection"))
        else:
            self._collection.refresh()
        return self._collection

    def feed(self, source: str, *, max_removed: float | None = None) -> Feed:
        """Begins a new version of everything that a source has.

        At the end of the block, keys that are new are added, changed documents are updated, and
        keys that were not added are removed, all at once. Meanwhile the index takes no other call.

        Args:
            source: the name of the source, 1 to 255 bytes. If several sources have a key, the
                document of the source with the smallest name is published.
            max_removed: as for `Indexer`, for this feed. 1 allows any number.

        Raises:
            LockedError: another feed is in progress.
            ValueError: the index is closed.
        """
        return Feed(self, source, True, max_removed)

    def changes(self, source: str) -> Feed:
        """Begins single changes of a source: keys that they do not name stay as they are.

        Args:
            source: the name of the source.

        Examples:
            >>> index = firndb.Indexer("rooms.index", {"price": "f64"})
            >>> index.upsert("rooms", "room 1", {"price": 80.0})
            True
            >>> with index.changes("rooms") as changes:
            ...     changes.add("room 2", {"price": 75.0})
            ...     changes.remove("room 1")
            >>> index.status().sources
            {'rooms': 1}
            >>> index.close()
        """
        return Feed(self, source, False)

    def apply(
        self,
        source: str,
        documents: Mapping[Any, Document] | Iterable[tuple[Key, Document]] | Iterable[Document],
        *,
        key: str | Callable[[Document], Key] | None = None,
        max_removed: float | None = None,
    ) -> Applied:
        """Applies a new version of a source, as `feed` does.

        Args:
            source: the name of the source.
            documents: a mapping of keys to documents, pairs of key and document, or, with `key`,
                documents.
            key: the name of the field that has the key, or a function of the document that returns
                it.
            max_removed: as for `feed`.

        Raises:
            InvalidArgumentError: a document does not fit the schema, or the feed would remove too
                many documents. Nothing was changed.

        Examples:
            >>> index = firndb.Indexer("rooms.index", {"city": "string"})
            >>> rooms = [{"id": "1", "city": "Oslo"}, {"id": "2", "city": "Bergen"}]
            >>> index.apply("rooms", rooms, key="id").added
            2
            >>> index.apply("rooms", rooms[:1], key="id").removed
            1
            >>> index.close()
        """
        items = _pairs(documents, key)
        with self.feed(source, max_removed=max_removed) as feed:
            feed.add_many(items)
        return feed.applied

    def upsert(
        self, source: str, key: Key, document: Document, *, payload: Key | None = None
    ) -> bool:
        """Sets the document of a key.

        Args:
            source: the name of the source.
            key: 1 to 65,535 bytes.
            document: the values by the names of the fields.
            payload: bytes that queries return with the document.

        Returns:
            whether the source did not have this document already.
        """
        with self.changes(source) as changes:
            changes.add(key, document, payload=payload)
        return changes.applied.unchanged == 0

    def delete(self, source: str, key: Key) -> bool:
        """Removes the document of a key.

        Returns:
            whether the source had one.
        """
        with self.changes(source) as changes:
            changes.remove(key)
        return changes.applied.unchanged == 0

    def publish(self) -> Publication:
        """Rebuilds the partitions with changes, and publishes them as one set of the collection.

        Once this returns, the set is durable and new readers get it. Runs without the GIL.

        Raises:
            FailedError: the collection was changed or replaced since the index was opened. Nothing
                was published.
            InvalidArgumentError: a partition does not fit into the memory of one thread.
        """
        return Publication(**self._publish())

    def publish_to(self, catalog: Catalog, name: str) -> Publication:
        """Does what `publish` does, and publishes the collection as the next version of a name.

        Args:
            catalog: the catalog.
            name: the name in the catalog.

        Raises:
            AlreadyExistsError: another publisher was faster. The collection has the changes, and
                the call can be repeated.
        """
        done, version = self._publish_to(catalog, name)
        return Publication(**done, published=None if version is None else Published._of(version))

    def status(self) -> IndexStatus:
        """Counts what is in the index. Takes about 10 ms per million keys."""
        return IndexStatus(self._status())

    def backup(self, to: AnyPath) -> IndexBackup:
        """Makes a backup, or updates an earlier backup of this index. It opens like any index.

        Args:
            to: a directory that is new or empty, or that has an earlier backup of this index.

        Raises:
            AlreadyExistsError: the directory has other contents. Nothing was changed.
        """
        return IndexBackup(**self._backup(to))

    def close(self) -> None:
        """Closes the index. A feed in progress is discarded. Closing again does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"firndb.Indexer({self.path!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Indexer writes to its directory, which one process at a time may do")


def _pairs(
    documents: Mapping[Any, Document] | Iterable[Any],
    key: str | Callable[[Document], Key] | None,
) -> Iterable[Any]:
    if isinstance(documents, Mapping):
        if key is not None:
            raise TypeError("a mapping has the keys of its documents: leave out `key`")
        return documents.items()
    if key is None:
        return documents
    if callable(key):
        return ((key(document), document) for document in documents)
    return ((_field(document, key), document) for document in documents)


def _field(document: Document, key: str) -> Key:
    value = document.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str | bytes | bytearray | memoryview):
        found = "missing" if value is None else f"a {type(value).__name__}"
        raise TypeError(f"the key `{key}` of a document is {found}; keys are str, bytes or int")
    return value
