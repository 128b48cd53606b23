"""Collections, as type checkers see them."""

from typing import Any, assert_type

import firndb
import polars
from firndb import Condition, F, FieldRef, Hits, Order


def main() -> None:
    rows = [{"city": "Oslo", "price": 12.5}, {"city": "Bergen", "price": 9.0}]
    schema = firndb.Schema({"city": "string", "price": "f64"})
    assert schema == firndb.Schema([firndb.Field("city", "string"), firndb.Field("price", "f64")])
    assert_type(schema["city"], firndb.Field)
    with firndb.build_collection(rows, schema, "offers", order_by=F.price.desc()) as offers:
        assert_type(offers, firndb.Collection)
        assert_type(F.price, FieldRef)
        assert_type(F.price == 1, Condition)
        assert_type((F.price < 10) & ~F.city.exists(), Condition)
        assert_type(F.price.desc(), Order)
        hits = offers.search(F.price < 10, ["city", F.price], order_by=[F.price.asc(), "city"])
        assert_type(hits, Hits)
        assert_type(hits[0], dict[str, Any])
        assert_type(hits[:1], Hits)
        assert_type(hits.to_polars(), polars.DataFrame)
        assert_type(offers.count("price < 10"), int)
        assert_type(offers.facets(None, "city")["city"].as_dict(), dict[Any, int])
        [group] = offers.group(None, "city", aggregates="price", top=1)
        assert_type(group.aggregates["price"].count, int)
        with offers.change() as change:
            change.put("more", rows)
        for batch in offers.scan("price < 10"):
            assert_type(batch, Hits)
        firndb.Field("price", "f32")  # type: ignore[arg-type]
        offers.search(10)  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        main()
    except TypeError as error:
        assert "not int" in str(error)  # The last line, which mypy refuses too.
    else:
        raise AssertionError("a query of a wrong type was accepted")
