"""Schemas of collections: fields with types and roles."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack

from firndb import _native
from firndb._dialect import Dialect
from firndb._native import FieldRef, Order
from firndb._stats import table_html

FieldType: TypeAlias = Literal["bool", "i64", "u64", "f64", "timestamp", "string", "bytes"]
OrderLike: TypeAlias = str | FieldRef | Order | Sequence[str | FieldRef | Order]

_ROLES = ("filterable", "sortable", "stored")
_FLAGS = ("multi", "nullable", "scanned")


@dataclasses.dataclass(frozen=True, slots=True, init=False)
class Field:
    """A field: its name, its type, and what it is for.

    Args:
        name: the name, 1 to 255 bytes of UTF-8.
        type: `"bool"`, `"i64"`, `"u64"`, `"f64"`, `"timestamp"`, `"string"` or `"bytes"`.
        filterable: conditions and facets may use the field.
        sortable: orders may use it, and values can be read. By default if it is not `multi`.
        stored: values can be read.
        multi: a document has a set of values.
        nullable: a document may have no value. By default the same as `multi`.
        scanned: conditions scan a column, which takes less space; see `docs/search.md`.

    >>> import firndb
    >>> firndb.Field("tags", "string", multi=True)
    Field('tags', 'string filterable stored multi')
    """

    name: str
    type: FieldType
    filterable: bool
    sortable: bool
    stored: bool
    multi: bool
    nullable: bool
    scanned: bool

    def __init__(
        self,
        name: str,
        type: FieldType,
        *,
        filterable: bool = True,
        sortable: bool | None = None,
        stored: bool = True,
        multi: bool = False,
        nullable: bool | None = None,
        scanned: bool = False,
    ) -> None:
        set_value = object.__setattr__
        set_value(self, "name", name)
        set_value(self, "type", type)
        set_value(self, "filterable", filterable)
        set_value(self, "sortable", not multi if sortable is None else sortable)
        set_value(self, "stored", stored)
        set_value(self, "multi", multi)
        set_value(self, "nullable", multi if nullable is None else nullable)
        set_value(self, "scanned", scanned)

    @property
    def spec(self) -> str:
        """The type, the roles and the properties, as in a schema file: `"f64 full nullable"`."""
        roles = [role for role in _ROLES if getattr(self, role)]
        words = [self.type, *(["full"] if len(roles) == 3 else roles)]
        words += ["multi"] if self.multi else []
        words += ["nullable"] if self.nullable and not self.multi else []
        words += ["required"] if self.multi and not self.nullable else []
        words += ["scanned"] if self.scanned else []
        return " ".join(words)

    @classmethod
    def parse(cls, name: str, spec: str) -> Field:
        """The field of a name and words: a type, roles, `multi`, `nullable`, `scanned`.

        Without roles it has all that its type allows. `required` is the opposite of `nullable`.

        Raises:
            ValueError: a word is unknown.

        >>> firndb.Field.parse("price", "f64 nullable").sortable
        True
        """
        kind, *words = spec.split() or [""]
        known = {*_ROLES, *_FLAGS, "full", "required"}
        for word in words:
            if word not in known:
                raise ValueError(
                    f"field `{name}`: `{word}` is not a role or property; there are "
                    + ", ".join(sorted(known))
                )
        multi = "multi" in words
        nullable = "nullable" in words or (multi and "required" not in words)
        flags = {"multi": multi, "nullable": nullable, "scanned": "scanned" in words}
        if "full" in words or not {*_ROLES} & {*words}:
            # The roles that the other words allow.
            roles = {"sortable": "full" in words or not multi}
        else:
            roles = {role: role in words for role in _ROLES}
        return cls(name, kind, **roles, **flags)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.spec!r})"

    def _parts(self) -> _native._FieldParts:
        return dataclasses.astuple(self)


class Schema(Mapping[str, Field]):
    """The fields of a collection, the order of its documents, and how payloads are stored.

    A mapping of names to fields, in their order.

    Args:
        fields: a mapping of names to specifications such as `"f64"` or `"string filterable
            multi"`, or `Field`s.
        order_by: documents of a partition are kept in this order; queries in the same order stop
            early.
        points: pairs of fields that are queried together, such as latitude and longitude.
        payload_level: the level of zstd of payloads, 1 to 19; `None` leaves them uncompressed.
        payload_dictionary: a dictionary is trained on the payloads of a partition.
        dynamic: other fields of documents are added with these roles, such as `"filterable
            stored"`; `None` refuses them.

    Raises:
        InvalidArgumentError: a field occurs twice, or its properties contradict each other.
        ValueError: a type, role or property is unknown.

    >>> import firndb
    >>> schema = firndb.Schema({"city": "string", "price": "f64 nullable"}, order_by="city")
    >>> schema["price"].nullable
    True
    >>> schema
    Schema({'city': 'string full', 'price': 'f64 full nullable'}, order_by='city')
    """

    __slots__ = ("_fields", "_inner")

    _inner: _native.Schema
    _fields: dict[str, Field]

    def __init__(
        self,
        fields: Mapping[str, str | Field] | Iterable[Field] = (),
        *,
        order_by: OrderLike | None = None,
        points: Iterable[tuple[str, str]] = (),
        payload_level: int | None = None,
        payload_dictionary: bool = False,
        dynamic: str | None = None,
    ) -> None:
        roles = None
        if dynamic is not None:
            words = set(dynamic.split())
            if unknown := words - {*_ROLES, "full"}:
                raise ValueError(f"dynamic: `{unknown.pop()}` is not a role")
            filterable, sortable, stored = (role in words or "full" in words for role in _ROLES)
            roles = (filterable, sortable, stored)
        self._set(
            _native.Schema(
                [field._parts() for field in _fields_of(fields)],
                order_by,
                list(points),
                payload_level,
                payload_dictionary,
                roles,
            )
        )

    def _set(self, native: _native.Schema) -> None:
        self._inner = native
        self._fields = {
            name: Field(
                name,
                kind,
                filterable=filterable,
                sortable=sortable,
                stored=stored,
                multi=multi,
                nullable=nullable,
                scanned=scanned,
            )
            for (
                name,
                kind,
                filterable,
                sortable,
                stored,
                multi,
                nullable,
                scanned,
            ) in native.fields()
        }

    @classmethod
    def _of(cls, native: _native.Schema) -> Schema:
        schema = cls.__new__(cls)
        schema._set(native)
        return schema

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Reads the text of a schema file, as `firn search build --schema` does.

        Raises:
            InvalidArgumentError: the text is not a schema; the message has the line.

        >>> firndb.Schema.from_toml('''
        ... [fields]
        ... price = "f64 full nullable"
        ... ''')
        Schema({'price': 'f64 full nullable'})
        """
        return cls._of(_native.Schema.from_toml(text))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Schema:
        """Reads a schema file in TOML.

        Raises:
            FileNotFoundError: there is no such file.
            InvalidArgumentError: it is not a schema; the message has the line.
        """
        return cls.from_toml(Path(path).read_text(encoding="utf-8"))

    @classmethod
    def from_arrow(cls, source: Any) -> Schema:
        """The schema of the columns of an object with `__arrow_c_stream__`: a table of pyarrow, a
        data frame of polars or pandas.

        Raises:
            TypeError: the object has no such method.
            InvalidArgumentError: a column has a type that no field has.
        """
        return cls._of(_native.Schema.from_arrow(source))

    @classmethod
    def infer(
        cls,
        source: Any,
        *,
        null_texts: Iterable[str] = (),
        format: str = "auto",
        **dialect: Unpack[Dialect],
    ) -> Schema:
        """The schema that `build_collection` infers for a source: change it, and pass it there.

        Of files and iterables it reads the first 100,000 rows. The arguments are those of
        `build_collection`.

        Raises:
            InvalidArgumentError: there are no rows, or values of a field have different types.
            TypeError: the source has another type.

        >>> firndb.Schema.infer([{"id": 1, "tags": ["a"]}, {"id": 2.5}])
        Schema({'id': 'f64 full', 'tags': 'string filterable stored multi'})
        """
        from firndb._load import build_options, source_of

        kind, source = source_of(source)
        options = build_options(null_texts=null_texts, format=format, **dialect)
        return cls._of(_native.infer_schema(kind, source, options))

    @property
    def order_by(self) -> str:
        """The order of the documents in a partition; empty if they keep the order of the rows."""
        return self._inner.order()

    def to_toml(self) -> str:
        """The text of a schema file.

        >>> print(firndb.Schema({"id": "u64"}).to_toml())
        [[field]]
        name = "id"
        type = "u64"
        roles = ["full"]
        <BLANKLINE>
        """
        return self._inner.to_toml()

    def __getitem__(self, name: str) -> Field:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self._inner == other._inner

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __reduce__(self) -> tuple[Any, ...]:
        return (Schema.from_toml, (self.to_toml(),))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name!r}: {field.spec!r}" for name, field in self.items())
        order = f", order_by={self.order_by!r}" if self.order_by else ""
        return f"Schema({{{fields}}}{order})"

    def _repr_html_(self) -> str:
        rows: list[list[object]] = [
            [
                field.name,
                field.type + ("[]" if field.multi else ""),
                ", ".join(role for role in _ROLES if getattr(field, role)),
                "nullable" if field.nullable else "",
            ]
            for field in self.values()
        ]
        return table_html(["field", "type", "roles", ""], rows)


SchemaLike: TypeAlias = Schema | Mapping[str, str | Field] | Iterable[Field]


def _fields_of(fields: object) -> list[Field]:
    if isinstance(fields, str):
        raise TypeError("fields are a mapping or Fields; use Schema.from_toml for a text")
    if isinstance(fields, Mapping):
        return [_field_of(name, spec) for name, spec in fields.items()]
    if not isinstance(fields, Iterable):
        raise TypeError(f"fields are a mapping or Fields, not {type(fields).__name__}")
    found = []
    for field in fields:
        if not isinstance(field, Field):
            raise TypeError(f"a field is a firndb.Field, not {type(field).__name__}")
        found.append(field)
    return found


def _field_of(name: object, spec: object) -> Field:
    if not isinstance(name, str):
        raise TypeError(f"the name of a field is a str, not {type(name).__name__}")
    if isinstance(spec, Field):
        if spec.name != name:
            raise ValueError(f"field `{spec.name}` is given as `{name}`")
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"field `{name}` is a text such as 'f64 full', not {type(spec).__name__}")
    return Field.parse(name, spec)


def native_schema(schema: object) -> _native.Schema | None:
    """The native schema of an argument `schema`: a schema, or what makes one."""
    if schema is None:
        return None
    if isinstance(schema, Schema):
        return schema._inner
    if isinstance(schema, str | os.PathLike):
        raise TypeError("a schema is no path or text: use Schema.from_file or Schema.from_toml")
    return Schema(schema)._inner  # type: ignore[arg-type]
