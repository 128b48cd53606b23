"""How text files are written."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Unpack


class Dialect(TypedDict, total=False):
    """Keyword arguments of functions that read CSV, TSV, text and JSON lines.

    - `delimiter`: separates the columns of CSV and TSV: one ASCII character. Default: that of the
      format.
    - `quote`: encloses values of CSV and TSV; `None` if quotes are data. Default: `"`.
    - `escape`: the quote, delimiter or newline after this character is data. Default: none.
    - `comment`: lines that begin with this character are skipped. Default: none.
    - `header`: whether the first row of CSV and TSV has the names of the columns; else they are
      `column1`, `column2`, and so on. Default: `True`.
    - `skip_lines`: lines before the header that are skipped. Default: 0.
    - `ragged`: a row with too few values is an "error", or "fill" gives its last columns no value.
      Default: "error".
    - `encoding`: of text, CSV, TSV and JSON lines, such as "latin1" or "utf-16". By default bytes
      are taken unchanged, unless CSV, TSV or JSON lines begin with a byte order mark of UTF-16.
    - `max_row`: bytes of the longest row; a longer row ends the build. Default: 256 MiB.
    """

    delimiter: str | None
    quote: str | None
    escape: str | None
    comment: str | None
    header: bool
    skip_lines: int
    ragged: Literal["error", "fill"]
    encoding: str | None
    max_row: int


def dialect_options(**dialect: Unpack[Dialect]) -> dict[str, Any]:
    """All options as the native part takes them."""
    options: dict[str, Any] = {
        "delimiter": None,
        "quote": '"',
        "escape": None,
        "comment": None,
        "header": True,
        "skip_lines": 0,
        "ragged": "error",
        "encoding": None,
        "max_row": 256 << 20,
    }
    for name, value in dialect.items():
        if name not in options:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
        options[name] = value
    for name in ("skip_lines", "max_row"):
        if options[name] < 0:
            raise ValueError(f"{name} is negative: {options[name]}")
    return options
