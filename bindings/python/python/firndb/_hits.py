"""What a search finds."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

from firndb import _native
from firndb._stats import table_html

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# Rows that iteration reads at a time, without the GIL.
_CHUNK = 256

# Rows that a notebook shows, and characters of a text.
_SHOWN = 10
_TEXT = 200


# Not a `collections.abc.Sequence`: polars and others would read it as a list of dictionaries, and
# not as Arrow data.
class Hits(_native.Hits):
    """The matches of a search: a sequence of rows, which are read on demand.

    It has a length, an iterator, indices and slices.

    A row is a dictionary of the requested fields. Timestamps are aware datetimes in UTC,
    multi-valued fields are lists, and a missing value is `None`. The hits are a table for Arrow,
    too: pyarrow, polars, pandas and duckdb read them through `__arrow_c_stream__`, any number of
    times. They stay usable after the collection was closed or changed.

    Attributes:
        total: the number of all matches, if the search had `count=True`; else `None`.
        next: the token of the next page, for `after`; `None` on the last page.
        fields: the names of the fields of a row.
        payloads: the payloads, a list of bytes.

    >>> import firndb
    >>> rows = [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]
    >>> with firndb.build_collection(rows, path="rooms") as rooms:
    ...     hits = rooms.search("id > 0", order_by="id", limit=1, count=True)
    >>> hits.total, len(hits), hits[0]
    (2, 1, {'id': 1, 'city': 'Oslo'})
    """

    __slots__ = ()

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Hits: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Hits:
        if isinstance(index, slice):
            return Hits(self._slice(index))
        return self._row(index)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self), _CHUNK):
            yield from self._rows(start, start + _CHUNK)

    def to_dicts(self) -> list[dict[str, Any]]:
        """All rows as dictionaries."""
        return self._rows(0, len(self))

    def to_arrow(self) -> pyarrow.Table:
        """The rows as a table of pyarrow.

        Raises:
            ImportError: pyarrow is not installed.
        """
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame of pandas.

        Raises:
            ImportError: pandas or pyarrow is not installed.
        """
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The rows as a data frame of polars.

        Raises:
            ImportError: polars is not installed.
        """
        import polars

        return polars.DataFrame(self)

    def __reduce__(self) -> Any:
        raise TypeError("hits cannot be pickled: pickle to_arrow() or to_dicts()")

    def __repr__(self) -> str:
        total = "" if self.total is None else f" of {self.total}"
        return f"<Hits: {len(self)}{total}, fields {', '.join(self.fields)}>"

    def _repr_html_(self) -> str:
        rows = self._rows(0, _SHOWN)
        names = list(rows[0]) if rows else self.fields
        table = table_html(names, [[_shown(row[name]) for name in names] for row in rows])
        total = len(self) if self.total is None else self.total
        return f"{table}<p>{html.escape(f'{len(rows):,} of {total:,} hits')}</p>"


def _shown(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = _text(value)
    if isinstance(value, str) and len(value) > _TEXT:
        return value[:_TEXT] + "..."
    return value


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()
