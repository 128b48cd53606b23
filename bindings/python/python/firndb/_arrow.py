"""What all stores that export Arrow data have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as _pd
    import polars as _pl
    import pyarrow as _pa


class ArrowExport:
    """Conversions of an object with `__arrow_c_stream__`. Each imports the library of its name."""

    __slots__ = ()

    def to_arrow(self) -> _pa.Table:
        """All records as a `pyarrow.Table`.

        For a stream of batches that does not load all records, use
        `pyarrow.RecordBatchReader.from_stream(store)`.

        Raises:
            ImportError: pyarrow is not installed.
        """
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> _pd.DataFrame:
        """All records as a `pandas.DataFrame`.

        Raises:
            ImportError: pandas or pyarrow is not installed.
        """
        import pandas

        return pandas.DataFrame.from_arrow(self)

    def to_polars(self) -> _pl.DataFrame:
        """All records as a `polars.DataFrame`.

        Raises:
            ImportError: polars is not installed.
        """
        import polars

        return polars.DataFrame(_Stream(self))


class _Stream:
    """The stream of a store. Polars takes a mapping for one of columns, whatever else it is."""

    __slots__ = ("_store",)

    def __init__(self, store: Any) -> None:
        self._store = store

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._store.__arrow_c_stream__(requested_schema)
