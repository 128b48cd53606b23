"""Statistics of stores: objects with attributes, which notebooks show as tables."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any


class Stats:
    """Figures of a store at the moment of the call. Sizes end in `_bytes`, times in `_seconds`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def as_dict(self) -> dict[str, Any]:
        """The figures by name."""
        return dict(self.__dict__)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return iter(self.__dict__.items())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self if _is_plain(value))
        return f"{type(self).__name__}({shown})"

    def _repr_html_(self) -> str:
        return table_html(
            ["", type(self).__name__],
            [[name, _shown(value)] for name, value in self if _is_plain(value)],
        )


class Verification(Stats):
    """What was checked, and is intact.

    Attributes:
        files: files that were checked.
        bytes: bytes of these files, all of which were checked.
        records: records of tables and log stores, or documents of collections.
    """

    files: int
    bytes: int
    records: int

    @classmethod
    def of(cls, counts: tuple[int, int, int]) -> Verification:
        """The verification with these numbers of files, bytes and records."""
        return cls(dict(zip(("files", "bytes", "records"), counts, strict=True)))


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def table_html(header: list[str], rows: list[list[object]]) -> str:
    """A table for notebooks. All texts are escaped."""

    def line(tag: str, cells: list[Any]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', header)}</thead><tbody>{body}</tbody></table>"
