"""The query builder: conditions and orders from expressions of Python."""

import copy
import datetime as dt
import operator
import pickle
from collections.abc import Callable
from typing import Any

import firndb
import numpy
import pytest
from firndb import Condition, F, all_of, any_of

UTC = dt.UTC


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (F.price == 10, "price = 10"),
        (F.price != 10, "not price = 10"),
        (F.price < 10.5, "price < 10.5"),
        (F.price <= -1, "price <= -1"),
        (F.price > 2**63, "price > 9223372036854775808"),
        (F.price >= float("-inf"), "price >= -inf"),
        (10 > F.price, "price < 10"),
        (F.sold == True, "sold = true"),  # noqa: E712
        (F.city == "it's", "city = 'it''s'"),
        (F.data == b"\x00\xff", "data = x'00ff'"),
        (F.data == bytearray(b"a"), "data = x'61'"),
        (F["order by"] == 1, '"order by" = 1'),
        (F.seen >= dt.date(2024, 5, 1), "seen >= timestamp '2024-05-01T00:00:00Z'"),
        (
            F.seen < dt.datetime(2024, 5, 1, 8, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            "seen < timestamp '2024-05-01T06:30:00Z'",
        ),
        (
            F.seen == dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            "seen = timestamp '1969-12-31T23:59:59.999999Z'",
        ),
        (F.n.in_([1, 2]), "n in (1, 2)"),
        (F.n.in_(x for x in "ab"), "n in ('a', 'b')"),
        (F.n.in_([]), "n in ()"),
        (F.n.between(1, 2.5), "n between 1 and 2.5"),
        (F.city.startswith("Os"), "city prefix 'Os'"),
        (F.city.exists(), "exists city"),
        (~F.city.exists(), "not exists city"),
        (F.sold & (F.n > 1), "sold = true and n > 1"),
        ((F.n > 1) | F.sold, "n > 1 or sold = true"),
        (~F.sold, "not sold = true"),
        ((F.a == 1) & (F.b == 2) & (F.c == 3), "a = 1 and b = 2 and c = 3"),
        ((F.a == 1) & ((F.b == 2) | (F.c == 3)), "a = 1 and (b = 2 or c = 3)"),
        (~((F.a == 1) & (F.b == 2)), "not (a = 1 and b = 2)"),
        (all_of(), "all"),
        (any_of(), "not all"),
        (all_of(F.a == 1, F.b), "a = 1 and b = true"),
        (any_of(F.a == 1, F.b == 2), "a = 1 or b = 2"),
        (Condition("price < 10 and city = 'Oslo'"), "price < 10 and city = 'Oslo'"),
        (F.n == numpy.int64(7), "n = 7"),
        (F.n == numpy.float32(0.5), "n = 0.5"),
        (F.n == numpy.bool_(True), "n = true"),
    ],
)
def test_the_repr_of_a_condition_is_its_text(condition: Condition, text: str) -> None:
    assert repr(condition) == text
    assert repr(Condition(text)) == text
    assert repr(pickle.loads(pickle.dumps(condition))) == text
    assert copy.copy(condition) == condition


def test_orders_and_fields_have_texts() -> None:
    assert repr(F.price) == "price" and repr(F["a b"]) == '"a b"'
    assert repr(F.price.asc()) == "price" and repr(F.price.desc()) == "price desc"
    assert F.price.desc().field == "price" and F.price.desc().descending
    assert F.price.asc() == F.price.asc() != F.price.desc()
    assert hash(F.price.asc()) == hash(F.price.asc())
    assert pickle.loads(pickle.dumps(F)) is F
    assert pickle.loads(pickle.dumps(F.price)).name == "price"


def chained() -> Any:
    return 1 < F.x < 3


def contained() -> Any:
    return 1 in F.x


def negated() -> Any:
    return not F.x


def both() -> Any:
    return (F.x > 1) and (F.y > 1)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (chained, "combine conditions with & "),
        (both, "combine conditions with & "),
        (negated, "combine conditions with & "),
        (contained, "write F.x == value"),
        (lambda: F.a > 1 & F.b, "each in parentheses"),
        (lambda: (F.a & F.b) == 3, "each in parentheses"),
        (lambda: (F.a == 1) & 1, "combined with int"),
        (lambda: (F.a == 1) | None, "combined with NoneType"),
        (lambda: F.a < F.b, "field `a` is compared with a value, not with another field"),
        (lambda: F.a == (F.b == 1), "field `a` is compared with a condition"),
        (lambda: F.a == None, "~F.a.exists()"),  # noqa: E711
        (lambda: F.price == [1], "field `price`: a value is a bool, int"),
        (lambda: F.price < 1j, "field `price`: a value is a bool, int"),
        (lambda: F.price == numpy.datetime64("2024-01-01", "ns"), "not numpy.datetime64"),
        (lambda: F.n.in_("ab"), "in_ takes several values"),
        (lambda: F.n.in_(3), "not iterable"),
        (lambda: F.n.in_([1, None]), "field `n` is not compared with None"),
        (lambda: F.n.startswith(1), "field `n`: a prefix is a str or bytes"),
        (lambda: all_of([F.a == 1]), "combined with list"),
        (lambda: {F.a}, "unhashable"),
    ],
)
def test_misuse_says_what_to_write(misuse: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        misuse()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: F.n == 2**64, "field `n`: an integer has more than 64 bits"),
        (lambda: F.t == dt.datetime(2024, 5, 1), "field `t`: a datetime without a time zone"),
        (lambda: Condition("price <"), "price <\n"),
        (lambda: Condition("price < 1 order by price"), "order"),
    ],
)
def test_wrong_values_are_value_errors(misuse: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        misuse()
    assert message in str(caught.value)


def test_nesting_is_limited_and_long_chains_are_not_nested() -> None:
    condition = F.a == 1
    with pytest.raises(ValueError, match="nested more than"):
        for _ in range(100_000):
            condition = ~condition
    chain = all_of(*[F.a == n for n in range(10_000)])
    assert repr(chain).count(" and ") == 9_999
    for n in range(300):
        chain = (F.a == n) | (F.b == n) if n == 0 else chain | (F.a == n)
    assert repr(chain).count(" or ") == 300


def test_special_attributes_are_not_fields() -> None:
    for name in ("__array__", "__wrapped__", "__arrow_c_stream__"):
        assert not hasattr(F, name)
    assert F["__array__"].name == "__array__"


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
def test_conditions_are_not_ordered(compare: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(TypeError, match="a condition is not compared"):
        compare(F.a == 1, F.a == 1)


ROWS = [
    {"id": 1, "city": "Oslo", "price": 12.5, "sold": True, "seen": dt.date(2024, 5, 1)},
    {"id": 2, "city": "Bergen", "price": 9.0, "sold": False, "seen": dt.date(2024, 5, 2)},
    {"id": 3, "city": "Oslo", "price": 7.25, "sold": None, "seen": dt.date(2024, 5, 3)},
    {"id": 4, "city": "Voss", "price": None, "sold": True, "seen": dt.date(2024, 5, 4)},
]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (F.price < 10, [2, 3]),
        (F.price != 9, [1, 3, 4]),
        (F.city.in_(["Oslo", "Voss"]) & ~F.sold, [3]),
        (F.sold, [1, 4]),
        (~F.price.exists() | (F.id == 1), [1, 4]),
        (F.seen.between(dt.date(2024, 5, 2), "2024-05-03"), [2, 3]),
        (F.seen > dt.datetime(2024, 5, 3, tzinfo=UTC), [4]),
        (F.city.startswith("O"), [1, 3]),
        (F.id < 2.5, [1, 2]),
    ],
)
def test_conditions_find_what_their_text_finds(
    condition: Condition, ids: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "query-rooms"
    if not path.exists():
        firndb.build_collection(ROWS, path=path).close()
    rooms = firndb.Collection(path)
    assert [row["id"] for row in rooms.search(condition, order_by=F.id)] == ids
    assert rooms.count(condition) == len(ids)
    if isinstance(condition, Condition):
        assert rooms.count(repr(condition)) == len(ids)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (F.price == "cheap", "field `price` is of type f64"),
        (F.prize == 1, "there is no field `prize`"),
        (F.id.startswith("a"), "field `id`"),
        (F.city, "field `city`"),
        (F.price == float("nan"), "NaN"),
    ],
)
def test_conditions_are_checked_with_the_schema(
    condition: Condition, message: str, tmp_path: Any
) -> None:
    rooms = firndb.build_collection(ROWS, path=tmp_path / "rooms")
    with pytest.raises(firndb.InvalidArgumentError) as caught:
        rooms.search(condition)
    assert message in str(caught.value)
