"""Schemas and fields."""

import pickle
from pathlib import Path
from typing import Any

import firndb
import polars
import pyarrow
import pytest
from firndb import F, Field, Schema

TOML = """
order = ["-seen", "price"]
points = [["lat", "lon"]]

[payload]
compression = "zstd"
level = 7

[fields]
seen = "timestamp full"
price = "f64 full nullable scanned"
lat = "f64 filterable stored"
lon = "f64 filterable stored"
tags = "string filterable stored multi"
"""


def full() -> Schema:
    return Schema(
        {
            "seen": "timestamp",
            "price": Field("price", "f64", nullable=True, scanned=True),
            "lat": "f64 filterable stored",
            "lon": "f64 filterable stored",
            "tags": "string multi",
        },
        order_by=[F.seen.desc(), "price"],
        points=[("lat", "lon")],
        payload_level=7,
    )


def test_schemas_of_python_and_of_toml_are_equal(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(TOML)
    schema = full()
    assert schema == Schema.from_toml(TOML) == Schema.from_file(tmp_path / "x.toml")
    assert Schema.from_toml(schema.to_toml()) == schema == pickle.loads(pickle.dumps(schema))
    assert hash(schema) == hash(Schema.from_toml(TOML))
    assert schema != Schema({"seen": "timestamp"}) and schema != 5
    assert schema.order_by == "seen desc, price"


def test_schemas_are_mappings() -> None:
    schema = full()
    assert list(schema) == ["seen", "price", "lat", "lon", "tags"] and len(schema) == 5
    assert schema["tags"] == Field("tags", "string", multi=True) and "nope" not in schema
    assert schema["tags"].nullable and not schema["tags"].sortable
    assert Schema(schema.values(), order_by="-seen, price").order_by == schema.order_by
    with pytest.raises(KeyError):
        schema["nope"]
    assert "<td>string[]</td>" in schema._repr_html_()
    assert "order_by='seen desc, price'" in repr(schema)


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        (Field("x", "i64"), "i64 full"),
        (Field("x", "i64", sortable=False, stored=False), "i64 filterable"),
        (Field("x", "string", multi=True), "string filterable stored multi"),
        (Field("x", "i64", multi=True, nullable=False), "i64 filterable stored multi required"),
        (Field("x", "bool", nullable=True), "bool full nullable"),
        (Field("x", "bytes", filterable=False, sortable=False), "bytes stored"),
    ],
)
def test_fields_have_specifications(field: Field, spec: str) -> None:
    assert field.spec == spec and Field.parse("x", spec) == field
    assert eval(repr(field).replace("Field(", "Field.parse(")) == field
    assert Schema([field])["x"] == field


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Schema({"x": "i64 multi sortable"}), ValueError, "field `x`"),
        (lambda: Schema({"x": "i64 full multi"}), ValueError, "several values"),
        (lambda: Schema({"x": ""}), ValueError, "field `x`: `` is not a type"),
        (lambda: Schema([Field("x", "i64"), Field("x", "i64")]), ValueError, "`x` twice"),
        (lambda: Schema({"x": Field("y", "i64")}), ValueError, "field `y` is given as `x`"),
        (lambda: Schema({"x": "i64"}, order_by="y"), ValueError, "no field `y`"),
        (lambda: Schema({"x": "i64"}, points=[("x", "y")]), ValueError, "no field `y`"),
        (lambda: Schema({"x": "i64"}, payload_level=20), ValueError, "1 to 19"),
        (lambda: Schema({"x": "i64"}, dynamic="sorted"), ValueError, "`sorted` is not a role"),
        (lambda: Schema("x"), TypeError, "from_toml"),
        (lambda: Schema(["x"]), TypeError, "not str"),
        (lambda: Schema({5: "i64"}), TypeError, "not int"),
        (lambda: Schema(5), TypeError, "not int"),
        (lambda: Schema.from_toml("[fields]\nx = 'i65'"), ValueError, "line 2"),
        (lambda: Schema.from_toml("["), ValueError, "line 1"),
        (lambda: Schema.from_file("/nonexistent"), FileNotFoundError, "nonexistent"),
        (lambda: Schema.from_arrow(5), TypeError, "int has no method"),
        (lambda: Schema.from_arrow(pyarrow.array([1])), ValueError, "record batches"),
    ],
)
def test_wrong_schemas(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


def test_schemas_of_arrow() -> None:
    frame = polars.DataFrame({"id": [1], "tags": [["a"]]})
    schema = Schema.from_arrow(frame)
    assert schema["id"] == Field("id", "i64", nullable=True)
    assert schema["tags"] == Field("tags", "string", multi=True)
    assert Schema.from_arrow(frame.to_arrow()) == schema


def test_dynamic_schemas_take_fields_of_documents(tmp_path: Path) -> None:
    schema = Schema({"id": "i64"}, dynamic="filterable stored")
    rows = [{"id": 1, "a": "x"}, {"id": 2, "b": [1.5]}]
    built = firndb.build_collection(rows, schema, tmp_path / "x")
    assert list(built.schema) == ["id", "a", "b"] and built.count("a = 'x'") == 1


def test_schemas_are_inferred(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id;city\n1;NONE\n2;Oslo\n")
    schema = Schema.infer(tmp_path / "a.tsv", delimiter=";", null_texts=["NONE"], format="csv")
    assert schema == Schema({"id": "i64", "city": "string nullable"})
    assert Schema.infer(polars.DataFrame({"id": [1]})) == Schema({"id": "i64 nullable"})
    rows = [{"id": 1, "long": "x" * 300}, {"id": 2}]
    assert Schema.infer(rows) == Schema({"id": "i64", "long": "string stored nullable"})
    for source, error in [(5, TypeError), ([5], TypeError), ([], ValueError)]:
        with pytest.raises(error):
            Schema.infer(source)
