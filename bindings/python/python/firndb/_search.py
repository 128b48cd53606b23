"""Collections: documents that are filtered, sorted, counted, faceted and grouped."""

from __future__ import annotations

import dataclasses
import datetime
import html
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias, Unpack

from firndb import _native
from firndb._dialect import Dialect
from firndb._hits import Hits
from firndb._load import (
    UNITS,
    BytesFormat,
    Change,
    Format,
    Name,
    Names,
    OnError,
    Path,
    build_options,
    names_of,
    source_of,
    warn_skipped,
)
from firndb._native import Condition, FieldRef
from firndb._progress import Progress, reporting
from firndb._schema import OrderLike, Schema, SchemaLike, native_schema
from firndb._stats import Stats, Verification, table_html

Query: TypeAlias = str | Condition | FieldRef | None
Seconds: TypeAlias = float | datetime.timedelta

# Hits that a scan reads at a time.
_SCAN = 10_000


class Partition(NamedTuple):
    """A partition of a collection."""

    name: str
    documents: int
    file_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregate:
    """Figures of the values of a field. `sum` and `avg` are `None` for texts, bytes and times."""

    count: int
    min: Any
    max: Any
    sum: int | float | None
    avg: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Documents with the same values of the fields that a query groups by."""

    key: tuple[Any, ...]
    count: int
    aggregates: dict[str, Aggregate]


class Merge(NamedTuple):
    """Partitions that were merged into one."""

    names: list[str]
    into: str
    documents: int


class Facet(Sequence[tuple[Any, int]]):
    """The most frequent values of a field and their numbers of documents, most frequent first.

    Attributes:
        field: the name of the field.
        distinct: the number of distinct values.
        missing: the number of documents without a value.
    """

    __slots__ = ("_values", "distinct", "field", "missing")

    def __init__(
        self, field: str, values: list[tuple[Any, int]], distinct: int, missing: int
    ) -> None:
        self.field = field
        self.distinct = distinct
        self.missing = missing
        self._values = values

    def __getitem__(self, index: Any) -> Any:
        return self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def as_dict(self) -> dict[Any, int]:
        """The numbers of documents by value."""
        return dict(self._values)

    def __repr__(self) -> str:
        return f"<Facet {self.field}: {self._values!r}>"

    def _repr_html_(self) -> str:
        return table_html([self.field, "documents"], [list(pair) for pair in self._values])


class Explanation(Stats):
    """How a query was executed: its plan, and what it touched. The `str` is a text for people."""

    def __init__(self, values: Mapping[str, Any], text: str) -> None:
        super().__init__(values)
        self.text = text

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


class FieldStats(Stats):
    """Figures of a field; `None` where its roles do not provide them.

    Attributes:
        distinct: the number of distinct values of a filterable field.
        missing: the number of documents without a value.
        min: the smallest value of a sortable field.
        max: the largest value of a sortable field.
    """

    distinct: int | None
    missing: int | None
    min: Any
    max: Any


class CollectionStats(Stats):
    """Figures of a collection.

    Attributes:
        documents: the number of documents.
        partitions: the number of partitions.
        file_bytes: the size of their files.
        bundle_bytes: the memory of bundles of small partitions.
        fields: the figures of each field.
    """

    documents: int
    partitions: int
    file_bytes: int
    bundle_bytes: int

    fields: dict[str, FieldStats]

    def _repr_html_(self) -> str:
        header = ["field", "distinct", "missing", "smallest", "largest"]
        rows: list[list[object]] = [
            [name, *("" if value is None else value for _, value in field)]
            for name, field in self.fields.items()
        ]
        return super()._repr_html_() + table_html(header, rows)


class _Queries:
    """The queries of collections and readers."""

    __slots__ = ()

    def _reader(self) -> _native.CollectionReader:
        raise NotImplementedError

    @property
    def schema(self) -> Schema:
        """The fields of all partitions."""
        return Schema._of(self._reader()._schema())

    def partitions(self) -> list[Partition]:
        """The partitions, in the order of their names."""
        return [Partition(*parts) for parts in self._reader()._partitions()]

    def search(
        self,
        query: Query = None,
        fields: Names | None = None,
        payload: bool = False,
        *,
        limit: int | None = None,
        skip: int | None = None,
        order_by: OrderLike | None = None,
        after: str | None = None,
        count: bool = False,
        timeout: Seconds | None = None,
    ) -> Hits:
        """Finds documents.

        Args:
            query: a text such as `"price < 10 order by price limit 5"`, a condition such as
                `F.price < 10`, or `None` for all documents.
            fields: the fields of a row; by default all that can be read.
            payload: rows have the payload, too.
            limit: the maximum number of hits; by default that of the text, else all. A hit takes
                8 bytes until it is read; `scan` takes constant memory.
            skip: the number of matches to skip.
            order_by: a text such as `"price desc, id"`, `F.price.desc()`, or a list of these.
            after: the token `next` of the page before.
            count: count all matches, too, in `Hits.total`.
            timeout: seconds, or a `timedelta`, after which the search fails.

        Raises:
            InvalidArgumentError: the query does not fit the schema.
            CancelledError: the timeout was exceeded. It is a `TimeoutError`.

        >>> import firndb
        >>> from firndb import F
        >>> rows = [{"id": 1, "price": 12.5}, {"id": 2, "price": 9.0}, {"id": 3, "price": 7.0}]
        >>> offers = firndb.build_collection(rows, path="offers")
        >>> page = offers.search(F.price < 20, "id", order_by=F.price.asc(), limit=2)
        >>> page.to_dicts()
        [{'id': 3}, {'id': 2}]
        >>> offers.search(F.price < 20, "id", order_by="price", limit=2, after=page.next).to_dicts()
        [{'id': 1}]
        """
        found = self._reader()._search(
            query, fields, payload, limit, skip, order_by, after, count, timeout
        )
        return Hits(found)

    def scan(
        self,
        query: Query = None,
        fields: Names | None = None,
        payload: bool = False,
        *,
        order_by: OrderLike | None = None,
        batch_rows: int = _SCAN,
    ) -> Iterator[Hits]:
        """Finds all matches of a condition in batches, in constant memory.

        All batches are of the version that was current when the scan began.

        Args:
            query: a text without `limit` and `skip`, a condition, or `None` for all documents.
            fields: the fields of a row; by default all that can be read.
            payload: rows have the payload, too.
            order_by: the order, as in `search`.
            batch_rows: the number of rows of a batch.

        Raises:
            InvalidArgumentError: the query does not fit the schema.

        >>> import firndb
        >>> numbers = firndb.build_collection(({"n": n} for n in range(10)), path="numbers")
        >>> [len(hits) for hits in numbers.scan("n >= 3", batch_rows=4)]
        [4, 3]
        """
        if batch_rows < 1:
            raise ValueError("batch_rows is at least 1")
        reader = self._reader()

        def page(after: str | None) -> Hits:
            found = reader._search(
                query, fields, payload, batch_rows, None, order_by, after, False, None
            )
            return Hits(found)

        return _pages(page(None), page)

    def count(self, query: Query = None, *, timeout: Seconds | None = None) -> int:
        """The number of documents that satisfy a condition.

        Raises:
            InvalidArgumentError: the condition does not fit the schema, or has an order or limit.
            CancelledError: the timeout was exceeded.
        """
        return self._reader()._count(query, timeout)

    def facets(
        self,
        query: Query,
        fields: Names,
        *,
        top: int | None = None,
        disjunctive: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[str, Facet]:
        """Counts documents by the values of fields.

        Args:
            query: a condition; `None` for all documents.
            fields: one or several filterable fields.
            top: the number of values of a field, the most frequent ones; by default all.
            disjunctive: a field is counted as if the condition did not restrict it.
            timeout: seconds, or a `timedelta`, after which the call fails.

        Raises:
            InvalidArgumentError: the condition or a field does not fit the schema.
            CancelledError: the timeout was exceeded.

        >>> import firndb
        >>> rooms = [{"city": city} for city in ("Oslo", "Bergen", "Oslo")]
        >>> collection = firndb.build_collection(rooms, path="rooms")
        >>> collection.facets(None, "city", top=1)
        {'city': <Facet city: [('Oslo', 2)]>}
        """
        found = self._reader()._facets(query, fields, top, disjunctive, timeout)
        return {parts[0]: Facet(*parts) for parts in found}

    def group(
        self,
        query: Query,
        by: Names,
        *,
        aggregates: Names = (),
        top: int | None = None,
        timeout: Seconds | None = None,
    ) -> list[Group]:
        """Groups documents by the values of one or two fields.

        Args:
            query: a condition; `None` for all documents.
            by: one or two fields.
            aggregates: fields whose count, minimum, maximum, sum and average each group has.
            top: only the largest groups, largest first; by default all, in the order of their keys.
            timeout: seconds, or a `timedelta`, after which the call fails.

        Raises:
            InvalidArgumentError: the condition or a field does not fit the schema.
            CancelledError: the timeout was exceeded.

        >>> import firndb
        >>> rows = [{"city": "Oslo", "price": 12.0}, {"city": "Oslo", "price": 8.0}]
        >>> collection = firndb.build_collection(rows, path="rooms")
        >>> [group] = collection.group(None, "city", aggregates="price")
        >>> group.key, group.count, group.aggregates["price"].avg
        (('Oslo',), 2, 10.0)
        """
        names = names_of(aggregates)
        found = self._reader()._group(query, by, names, top, timeout)
        return [
            Group(key, count, {name: Aggregate(*parts) for name, parts in zip(names, all_parts)})
            for key, count, all_parts in found
        ]

    def aggregate(
        self, query: Query, field: Name, *, timeout: Seconds | None = None
    ) -> Aggregate:
        """Count, minimum, maximum, sum and average of a field over the matches of a condition.

        Raises:
            InvalidArgumentError: the condition or the field does not fit the schema.
            CancelledError: the timeout was exceeded.
        """
        return Aggregate(*self._reader()._aggregate(query, field, timeout))

    def explain(
        self,
        query: Query = None,
        *,
        limit: int | None = None,
        order_by: OrderLike | None = None,
        timeout: Seconds | None = None,
    ) -> Explanation:
        """Runs a query and reports its plan, what it touched, and the time.

        Raises:
            InvalidArgumentError: the query does not fit the schema.
            CancelledError: the timeout was exceeded.
        """
        return Explanation(*self._reader()._explain(query, limit, order_by, timeout))

    def stats(self) -> CollectionStats:
        """Size, and for each field the distinct and missing values, the smallest and the largest.

        It counts the values of all documents, which takes as long as a facet of each field.
        """
        reader = self._reader()
        documents, fields = len(reader), {}
        for name, field in Schema._of(reader._schema()).items():
            distinct = missing = smallest = largest = None
            if field.filterable:
                [(_, _, distinct, missing)] = reader._facets(None, [name], 0, False, None)
            if field.sortable:
                count, smallest, largest, _, _ = reader._aggregate(None, [name], None)
                missing = documents - count
            figures = {"distinct": distinct, "missing": missing, "min": smallest, "max": largest}
            fields[name] = FieldStats(figures)
        partitions = reader._partitions()
        return CollectionStats(
            {
                "documents": documents,
                "partitions": len(partitions),
                "file_bytes": sum(file_bytes for _, _, file_bytes in partitions),
                "bundle_bytes": reader._bundle_memory(),
                "fields": fields,
            }
        )

    def verify(self, *, progress: Progress = None) -> Verification:
        """Checks every byte of every partition. Ctrl-C interrupts it between partitions.

        Args:
            progress: a function of the bytes that were verified and the total, `True` for a
                progress bar, `False` for none; by default a bar in terminals and notebooks.

        Raises:
            CorruptError: a file is damaged; the error has its path and the offset.
        """
        with reporting(progress, "verify", "B") as report:
            return Verification.of(self._reader()._verify(report))

    def warm(self) -> None:
        """Verifies and prepares everything that queries use, so that no query has to.

        Raises:
            CorruptError: a file is damaged.
        """
        self._reader()._warm()


def _pages(hits: Hits, page: Any) -> Iterator[Hits]:
    while len(hits) > 0:
        yield hits
        if hits.next is None:
            return
        hits = page(hits.next)


class CollectionReader(_Queries, _native.CollectionReader):
    """One version of a collection, which never changes. `Collection.reader` returns it.

    It has the queries of a collection. Its files stay open until it is freed.
    """

    __slots__ = ()

    def _reader(self) -> _native.CollectionReader:
        return self

    def with_partitions(self, names: Iterable[str]) -> CollectionReader:
        """A reader of some of the partitions.

        Raises:
            NotFoundError: there is no partition of a name.
        """
        return CollectionReader(self._with_partitions(list(names)))

    def __repr__(self) -> str:
        return f"<CollectionReader: {len(self)} documents>"


class Collection(_native.Collection, _Queries):
    """A collection: documents in immutable partitions, in a directory.

    One process at a time changes a collection, any number of processes read it. Threads can share
    a handle, and queries run without the GIL. A handle reads one version until `refresh` is
    called, or until it commits a change itself. It is pickled as its path.

    Args:
        path: the directory of a collection, a partition file, or a list of partition files. Files
            can only be read.
        threads: the maximum number of threads of one query.

    Raises:
        NotFoundError: there is no collection at the path.
        CorruptError: a file is damaged.

    >>> import firndb
    >>> from firndb import F
    >>> rows = [{"city": "Oslo", "price": 12.5}, {"city": "Bergen", "price": 9.0}]
    >>> firndb.build_collection(rows, path="offers").close()
    >>> with firndb.Collection("offers") as offers:
    ...     offers.count("price < 10"), offers.count((F.price < 10) | (F.city == "Oslo"))
    (1, 2)
    """

    _path: Path | list[Path]
    _threads: int

    def __init__(self, path: Path | Sequence[Path], *, threads: int = 1) -> None:
        if isinstance(path, str | os.PathLike):
            self._path = os.path.abspath(path)
        else:
            self._path = [os.path.abspath(file) for file in path]
        self._threads = threads

    @property
    def path(self) -> Path | list[Path]:
        """The absolute path of the directory or file, or those of the partition files."""
        return self._path

    def reader(self) -> CollectionReader:
        """The current version, for several queries of the same documents.

        Raises:
            ValueError: the collection is closed.
        """
        return CollectionReader(self._reader())

    def change(self) -> Change:
        """Begins a change of partitions, which `commit` or the end of a `with` block publishes.

        Other processes can change the collection until then: the change applies to the newest
        version.

        Raises:
            InvalidArgumentError: an index owns the collection, which alone may change it.
            FailedError: the process was forked since the collection was opened.
            ValueError: the collection is closed, or consists of partition files.

        >>> import firndb
        >>> days = firndb.build_collection([{"n": 1}], path="days", partition="sunday")
        >>> with days.change() as change:
        ...     change.put("monday", [{"n": 2}, {"n": 3}])
        ...     change.remove("sunday")
        >>> days.partitions()[0].name, len(days)
        ('monday', 2)
        """
        return Change(self._change())

    def compact(
        self,
        *,
        small: int | None = None,
        most_documents: int | None = None,
        most_bytes: int | None = None,
        at_least: int | None = None,
        unchanged_for: Seconds | None = None,
        dry_run: bool = False,
    ) -> list[Merge]:
        """Merges runs of small neighbouring partitions. Query results do not change.

        Args:
            small: a partition with fewer documents is small (default 65,536).
            most_documents: the maximum number of documents of a merged partition (1,048,576).
            most_bytes: the maximum total size of the files that are merged into one (1 GiB).
            at_least: the minimum number of neighbours to merge (4).
            unchanged_for: seconds, or a `timedelta`: newer files are not merged (one hour).
            dry_run: only report what would be merged.

        Returns:
            The merges. The old names stay reserved for the merged documents.

        Raises:
            LockedError: another process is changing the collection.
            ValueError: the collection is closed, or consists of partition files.
        """
        merged = self._compact(
            small, most_documents, most_bytes, at_least, unchanged_for, dry_run
        )
        return [Merge(*parts) for parts in merged]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __bool__(self) -> bool:
        # Not the number of documents: `if collection:` asks whether there is one.
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return (_open, (self._path, self._threads))

    def __repr__(self) -> str:
        if self.closed:
            return f"<Collection {self._path!r}: closed>"
        return f"<Collection {self._path!r}: {len(self)} documents>"

    def _repr_html_(self) -> str:
        if self.closed:
            return html.escape(repr(self))
        title = html.escape(f"{self._path}: {len(self):,} documents")
        return f"<p>{title}</p>{self.schema._repr_html_()}"


def _open(path: Path | list[Path], threads: int) -> Collection:
    return Collection(path, threads=threads)


def build_collection(
    source: Any,
    schema: SchemaLike | None = None,
    path: Path | None = None,
    *,
    partition: str = "main",
    partition_by: Name | None = None,
    partitions: int | None = None,
    payload: str | None = None,
    order_by: OrderLike | None = None,
    null_texts: Iterable[str] = (),
    on_error: OnError = "stop",
    memory_bytes: int = 1 << 30,
    temp_dir: Path | None = None,
    format: Format = "auto",
    separator: str = "|",
    bytes_format: BytesFormat = "text",
    progress: Progress = None,
    **dialect: Unpack[Dialect],
) -> Collection:
    """Builds a collection in a new directory: all of it, or nothing if an error is raised.

    Args:
        source: one of
            - a path, or a list of paths: files of CSV, TSV, JSON lines, Parquet, Arrow or Avro, and
              directories of such files; gzip and zstd are detected;
            - an object with `__arrow_c_stream__`: a table of pyarrow, a data frame of polars or
              pandas, a relation of duckdb;
            - an iterable of dictionaries. Values keep their types: bool, int, float, str, bytes,
              aware datetime, date, and lists of these. A nested dictionary becomes fields named
              `outer.inner`. `None` and NaN are missing values.
        schema: a `Schema`, or what makes one, such as `{"city": "string", "price": "f64"}`. Other
            columns are ignored. By default it is inferred: from the columns of Arrow, else from
            the first 100,000 rows.
        path: the directory, which is missing or empty.
        partition: the name of the partition of all documents.
        partition_by: a field; one partition for each of its values.
        partitions: a number of partitions, `00000` and so on, among which rows are distributed.
        payload: what documents carry as payload: `None` for nothing, `"row"` for the row as JSON,
            or the name of a column of texts or bytes.
        order_by: documents are kept in this order, as `Schema.order_by`.
        null_texts: texts of CSV that stand for a missing value. Nothing between two delimiters
            always does.
        on_error: what happens if a row does not fit the schema: `"stop"` the build, or `"skip"` it
            and warn once at the end.
        memory_bytes: the memory of the build. What exceeds it is written to further partitions
            `NAME.2`, `NAME.3`, ..., which belong to `NAME`.
        temp_dir: where these are written before they are published; by default next to `path`.
        format: the format of files; by default by their names, then by their first bytes.
        separator: the separator of the values of a multi-valued field in CSV.
        bytes_format: `"hex"` if texts of files express bytes as hexadecimal digits.
        progress: a function of what was done and the total (bytes of files, or rows), `True` for a
            progress bar, `False` for none; by default a bar in terminals and notebooks. What it
            raises ends the build.
        dialect: how text files are written: `delimiter`, `quote`, `escape`, `comment`, `header`,
            `skip_lines`, `ragged`, `encoding` and `max_row`; see `Dialect`.

    Raises:
        AlreadyExistsError: the directory has files.
        InvalidArgumentError: a row does not fit the schema; the message names row and field.
        FailedError: there would be more than 4,096 partitions.
        TypeError: the source, or a value of a row, has another type.

    >>> import firndb
    >>> rows = [{"city": "Oslo", "price": 12.5}, {"city": "Bergen", "price": 9.0}]
    >>> offers = firndb.build_collection(rows, path="offers", partition_by="city")
    >>> offers.schema
    Schema({'city': 'string full', 'price': 'f64 full'})
    >>> [partition.name for partition in offers.partitions()]
    ['Bergen', 'Oslo']
    """
    if path is None:
        raise TypeError("build_collection needs the path of the new collection: path=...")
    native = native_schema(schema)
    options = build_options(
        partition=partition,
        partition_by=partition_by,
        partitions=partitions,
        payload=payload,
        null_texts=null_texts,
        on_error=on_error,
        memory_bytes=memory_bytes,
        temp_dir=temp_dir,
        format=format,
        separator=separator,
        bytes_format=bytes_format,
        order_by=order_by,
        **dialect,
    )
    kind, source = source_of(source)
    with reporting(progress, "build", UNITS[kind]) as report:
        found = _native.build_collection(kind, source, native, path, options, report)
    warn_skipped(found)
    return Collection(path)
