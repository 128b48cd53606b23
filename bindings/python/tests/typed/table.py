"""Tables, as type checkers see them."""

from collections.abc import Iterator, Mapping
from typing import Any, assert_type

import firndb


def main() -> None:
    rows = [{"id": 1, "name": "one", "size": 2}]
    with firndb.build_table(rows, "table", key="id", filter=8) as table:
        assert_type(table, firndb.Table)
        assert isinstance(table, Mapping)
        assert_type(table.get_many(["1"]), list[Any])
        assert_type(table.get_many(["1"], arrow=True), firndb.Array | firndb.Columns)
        assert_type(table.columns, list[str] | None)
        assert_type(table.row("1"), dict[str, Any] | None)
        assert_type(table.stats(), firndb.TableStats)
        assert_type(table.stats().records, int)
        assert_type(table.verify().files, int)
    with firndb.build_table({"a": b"1"}, "pairs", order="key") as pairs:
        assert_type(pairs.range("a", reverse=True), Iterator[tuple[Any, Any]])
        assert_type(pairs.prefix(b"a"), Iterator[tuple[Any, Any]])
        assert_type(pairs.ordered, bool)
        assert_type(pairs.stats().order, str)
    firndb.build_table([("a", b"1")], "more", duplicates="first").close()
    firndb.build_table(table, "copy", filter=7)  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        main()
    except ValueError:
        pass  # The last line, which mypy refuses too.
    else:
        raise AssertionError("a filter of 7 bits was accepted")
