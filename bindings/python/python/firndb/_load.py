"""Sources of rows for collections, and changes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, Unpack

from firndb import _native
from firndb._dialect import Dialect, dialect_options
from firndb._errors import FirnWarning
from firndb._native import FieldRef
from firndb._progress import Progress, reporting
from firndb._schema import OrderLike, SchemaLike, native_schema

Path: TypeAlias = str | os.PathLike[str]
Name: TypeAlias = str | FieldRef
Names: TypeAlias = Name | Iterable[Name]
Kind: TypeAlias = Literal["files", "arrow", "rows"]
OnError: TypeAlias = Literal["stop", "skip"]
Format: TypeAlias = Literal["auto", "csv", "tsv", "jsonl", "parquet", "arrow", "avro"]
BytesFormat: TypeAlias = Literal["text", "hex"]

# What progress is measured in, for each kind of source.
UNITS: dict[Kind, str] = {"files": "B", "arrow": "rows", "rows": "rows"}


def names_of(fields: Names) -> list[str]:
    """The names of one or several fields."""
    if isinstance(fields, str | FieldRef):
        fields = [fields]
    return [name if isinstance(name, str) else name.name for name in fields]


class Change(_native.Change):
    """A change of a collection: `Collection.change` begins it.

    As a context manager it commits at the end of the block, unless the block raises.
    """

    def put(
        self,
        name: str,
        source: Any,
        schema: SchemaLike | None = None,
        *,
        payload: str | None = None,
        null_texts: Iterable[str] = (),
        on_error: OnError = "stop",
        memory_bytes: int = 1 << 30,
        temp_dir: Path | None = None,
        format: Format = "auto",
        separator: str = "|",
        bytes_format: BytesFormat = "text",
        progress: Progress = None,
        **dialect: Unpack[Dialect],
    ) -> None:
        """Adds a partition, or replaces the one of this name, by the rows of a source.

        The rows are read at once; `commit` publishes them. The arguments are those of
        `build_collection`. Without a schema, that of the collection is used.

        Raises:
            CorruptError: an input is a damaged Parquet, Arrow or Avro file, or its compression is
                damaged.
            InvalidArgumentError: a row does not fit the schema.
            ValueError: there are no rows, or the change has ended.
        """
        self._load(
            source,
            schema,
            progress,
            partition=name,
            payload=payload,
            null_texts=null_texts,
            on_error=on_error,
            memory_bytes=memory_bytes,
            temp_dir=temp_dir,
            format=format,
            separator=separator,
            bytes_format=bytes_format,
            **dialect,
        )

    def put_by(
        self,
        field: Name,
        source: Any,
        schema: SchemaLike | None = None,
        *,
        payload: str | None = None,
        null_texts: Iterable[str] = (),
        on_error: OnError = "stop",
        memory_bytes: int = 1 << 30,
        temp_dir: Path | None = None,
        format: Format = "auto",
        separator: str = "|",
        bytes_format: BytesFormat = "text",
        progress: Progress = None,
        **dialect: Unpack[Dialect],
    ) -> None:
        """Puts the rows of a source into one partition for each value of a field.

        Partitions of the same names are replaced, others stay. The arguments are those of `put`.

        Raises:
            CorruptError: an input is a damaged Parquet, Arrow or Avro file, or its compression is
                damaged.
            InvalidArgumentError: a row does not fit the schema, or there is no such field.
            ValueError: there are no rows, or the change has ended.
        """
        self._load(
            source,
            schema,
            progress,
            partition_by=field,
            payload=payload,
            null_texts=null_texts,
            on_error=on_error,
            memory_bytes=memory_bytes,
            temp_dir=temp_dir,
            format=format,
            separator=separator,
            bytes_format=bytes_format,
            **dialect,
        )

    def _load(
        self, source: Any, schema: SchemaLike | None, progress: Progress, **options: Any
    ) -> None:
        kind, source = source_of(source)
        checked = build_options(**options)
        with reporting(progress, "put", UNITS[kind]) as report:
            found = self._put(kind, source, native_schema(schema), checked, report)
        warn_skipped(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()


def build_options(
    *,
    partition: str = "main",
    partition_by: Name | None = None,
    partitions: int | None = None,
    payload: str | None = None,
    null_texts: Iterable[str] = (),
    on_error: OnError = "stop",
    memory_bytes: int = 1 << 30,
    temp_dir: Path | None = None,
    format: str = "auto",
    separator: str = "|",
    bytes_format: BytesFormat = "text",
    order_by: OrderLike | None = None,
    **dialect: Unpack[Dialect],
) -> dict[str, Any]:
    """The options of a build as the native part takes them."""
    if partition_by is not None and partitions is not None:
        raise ValueError("partition_by and partitions exclude each other")
    if on_error not in ("stop", "skip"):
        raise ValueError(f"on_error is 'stop' or 'skip', not {on_error!r}")
    if bytes_format not in ("text", "hex"):
        raise ValueError(f"bytes_format is 'text' or 'hex', not {bytes_format!r}")
    if isinstance(null_texts, str):
        raise TypeError("null_texts are a list of texts")
    if len(separator) != 1:
        raise ValueError(f"separator is one character, not {separator!r}")
    if memory_bytes < 0:
        raise ValueError("memory_bytes is negative")
    return {
        "partition": partition,
        "partition_by": None if partition_by is None else names_of(partition_by)[0],
        "partitions": partitions,
        "payload": payload,
        "null_texts": list(null_texts),
        "skip": on_error == "skip",
        "memory_bytes": memory_bytes,
        "temp_dir": temp_dir,
        "format": format,
        "dialect": dialect_options(**dialect),
        "separator": separator,
        "hex": bytes_format == "hex",
        "order_by": order_by,
    }


def source_of(source: Any) -> tuple[Kind, Any]:
    """The kind of a source of rows, and what the native part reads."""
    if isinstance(source, str | os.PathLike):
        return "files", [source]
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return "arrow", source
    if isinstance(source, Sequence) and source and isinstance(source[0], str | os.PathLike):
        return "files", list(source)
    if isinstance(source, Mapping):
        raise TypeError("rows are an iterable of dicts, not a dict: put it into a list")
    if not isinstance(source, Iterable) or isinstance(source, bytes | bytearray):
        raise TypeError(
            "a source is a path, an object with __arrow_c_stream__, or an iterable of dicts, not "
            + type(source).__name__
        )
    return "rows", source


def warn_skipped(report: tuple[int, int, list[str]]) -> None:
    """Warns about rows that were skipped."""
    rows, skipped, first = report
    if skipped:
        more = f"; and {skipped - len(first):,} more" if skipped > len(first) else ""
        shown = "; ".join(first)
        message = f"skipped {skipped:,} of {rows:,} rows: {shown}{more}"
        warnings.warn(message, FirnWarning, stacklevel=3)
