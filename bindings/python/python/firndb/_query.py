"""The query builder: conditions and orders from expressions of Python."""

from __future__ import annotations

from typing import Final

from firndb._native import Condition, FieldRef, Order, all_of, any_of

__all__ = ["Condition", "F", "FieldRef", "Fields", "Order", "all_of", "any_of"]


class Fields:
    """The fields of any collection: `F.price`, or `F["order by"]` for names of other characters.

    | expression | condition |
    |---|---|
    | `F.a == 1`, `!=`, `<`, `<=`, `>`, `>=` | a comparison with one value |
    | `F.a.in_([1, 2])` | one of several values |
    | `F.a.between(1, 2)` | a range, bounds included |
    | `F.a.startswith("x")` | a string or bytes field with this prefix |
    | `F.a.exists()` | there is a value |
    | `F.a & F.b`, `~F.a` | fields of type `bool`, which are true |
    | `c & d`, `c \\| d`, `~c` | and, or, not |

    Values are bool, int, float, str, bytes, aware datetime, and date, which is midnight in UTC.

    >>> from firndb import F
    >>> (F.price < 10.5) & ~F.sold.exists()
    price < 10.5 and not exists sold
    >>> F.price.desc()
    price desc
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> FieldRef:
        if name.startswith("__") and name.endswith("__"):
            # Protocols of Python, such as `__array__`, are looked up on any object.
            raise AttributeError(f'write F["{name}"] for a field of this name')
        return FieldRef(name)

    def __getitem__(self, name: str) -> FieldRef:
        return FieldRef(name)

    def __repr__(self) -> str:
        return "F"

    def __reduce__(self) -> str:
        return "F"


F: Final = Fields()
"""The fields of any collection, for conditions and orders: `F.price < 10`."""
