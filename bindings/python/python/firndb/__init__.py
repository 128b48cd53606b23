"""FirnDB: an embedded storage library for data that is written once and read all the time."""

from firndb import _logging
from firndb._build import build_approximate_table, build_table
from firndb._catalog import Catalog
from firndb._catalog_reader import CatalogReader, Watch
from firndb._catalog_values import (
    Cleaned,
    Diff,
    Published,
    ReaderStats,
    Staged,
    Version,
    VersionChange,
    VersionFile,
)
from firndb._dialect import Dialect
from firndb._errors import (
    AlreadyExistsError,
    CancelledError,
    CorruptError,
    FailedError,
    FirnError,
    FirnWarning,
    InvalidArgumentError,
    IoError,
    LockedError,
    NotFoundError,
    UnsupportedVersionError,
)
from firndb._hits import Hits
from firndb._indexer import Applied, Feed, IndexBackup, Indexer, IndexStatus, Publication
from firndb._load import Change
from firndb._log import (
    LogBackup,
    LogRepaired,
    LogRestored,
    LogStats,
    LogStore,
    Snapshot,
)
from firndb._native import Array, Batch, Columns, Generation, __version__, shard_of
from firndb._query import F, Condition, FieldRef, Fields, Order, all_of, any_of
from firndb._schema import Field, Schema
from firndb._search import (
    Aggregate,
    Collection,
    CollectionReader,
    CollectionStats,
    Explanation,
    Facet,
    FieldStats,
    Group,
    Merge,
    Partition,
    build_collection,
)
from firndb._stats import Stats, Verification
from firndb._table import (
    ApproximateTable,
    ApproximateTableStats,
    ShardedTable,
    ShardedTableStats,
    Table,
    TableStats,
)

__all__ = [
    "Aggregate",
    "AlreadyExistsError",
    "Applied",
    "ApproximateTable",
    "ApproximateTableStats",
    "Array",
    "Batch",
    "CancelledError",
    "Catalog",
    "CatalogReader",
    "Change",
    "Cleaned",
    "Collection",
    "CollectionReader",
    "CollectionStats",
    "Columns",
    "Condition",
    "CorruptError",
    "Diff",
    "Explanation",
    "F",
    "Facet",
    "FailedError",
    "Feed",
    "Field",
    "FieldRef",
    "FieldStats",
    "Fields",
    "FirnError",
    "FirnWarning",
    "Generation",
    "Group",
    "Hits",
    "IndexBackup",
    "IndexStatus",
    "Indexer",
    "InvalidArgumentError",
    "IoError",
    "LockedError",
    "LogBackup",
    "LogRepaired",
    "LogRestored",
    "LogStats",
    "LogStore",
    "Merge",
    "NotFoundError",
    "Order",
    "Partition",
    "Publication",
    "Published",
    "ReaderStats",
    "Schema",
    "ShardedTable",
    "ShardedTableStats",
    "Snapshot",
    "Staged",
    "Stats",
    "Table",
    "TableStats",
    "UnsupportedVersionError",
    "Verification",
    "Version",
    "VersionChange",
    "VersionFile",
    "Watch",
    "__version__",
    "all_of",
    "any_of",
    "build_approximate_table",
    "build_collection",
    "build_table",
    "shard_of",
]

_logging.watch()
