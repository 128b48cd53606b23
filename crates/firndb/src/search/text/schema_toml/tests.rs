//! Schemas round-trip as TOML, and errors name the line.

use crate::search::model::query::{asc, desc};
use crate::search::point_at;
use crate::search::testing::Rng;
use crate::search::text::schema_toml::*;

const FULL_FORM: &str = r#"
order = ["-date", "price"]

[payload]
compression = "zstd"
dictionary = true

[[field]]
name = "region"
type = "i64"
roles = ["filterable", "stored"]

[[field]]
name = "tags"
type = "string"
roles = "filterable"
multi = true

[[field]]
name = "price"
type = "f64"
roles = "sortable filterable stored"
nullable = true
scanned = true

[[field]]
name = "date"
type = "timestamp"
roles = ["full"]
multi = false
"#;

const COMPACT_FORM: &str = r#"
order = ["date desc", "price"]
payload = { compression = "zstd", level = 3, dictionary = true }
[fields]
region = "i64 filterable stored"
tags = "string multi filterable"
price = "f64 full nullable scanned"
date = "timestamp full"
"#;

fn example() -> Schema {
    let schema = Schema::new([
        Field::new("region", Type::I64, Roles::FILTERABLE.with(Roles::STORED)),
        Field::new("tags", Type::String, Roles::FILTERABLE).multi(),
        Field::new("price", Type::F64, Roles::FULL).nullable().scanned(),
        Field::new("date", Type::Timestamp, Roles::FULL),
    ]);
    let payload = Payload::Zstd { level: 3, dictionary: true };
    schema.unwrap().payload(payload).order_by([desc("date"), asc("price")]).unwrap()
}

#[test]
fn full_and_compact_forms_are_equivalent() {
    assert_eq!(Schema::from_toml(FULL_FORM).unwrap(), example());
    assert_eq!(Schema::from_toml(COMPACT_FORM).unwrap(), example());
    assert_eq!(Schema::from_toml(&COMPACT_FORM.replace('\n', "\r\n")).unwrap(), example());
}

#[test]
fn schemas_are_written_in_readable_form() {
    let expected = r#"order = ["-date"]
points = [["lat", "lon"]]
dynamic = ["filterable", "stored"]

[payload]
compression = "zstd"
level = 19
dictionary = false

[[field]]
name = "date"
type = "timestamp"
roles = ["full"]

[[field]]
name = "tags"
type = "string"
roles = ["filterable"]
multi = true

[[field]]
name = "lat"
type = "f64"
roles = ["filterable"]

[[field]]
name = "lon"
type = "f64"
roles = ["filterable"]
"#;
    let mut schema = Schema::dynamic(Roles::FILTERABLE.with(Roles::STORED));
    schema.add(Field::new("date", Type::Timestamp, Roles::FULL)).unwrap();
    schema.add(Field::new("tags", Type::String, Roles::FILTERABLE).multi()).unwrap();
    for name in ["lat", "lon"] {
        schema.add(Field::new(name, Type::F64, Roles::FILTERABLE)).unwrap();
    }
    let schema = schema.point("lon", "lat").unwrap();
    let payload = Payload::Zstd { level: 19, dictionary: false };
    let schema = schema.order_by([desc("date")]).unwrap().payload(payload);
    assert_eq!(schema.to_toml(), expected);
    assert_eq!(Schema::default().to_toml(), "");
}

#[test]
fn schemas_round_trip_as_text() {
    let mut rng = Rng(0x70_311);
    println!("seed {:#x}", rng.0);
    for _ in 0..2_000 {
        let mut schema = Schema { dynamic: roles(&mut rng), ..Schema::default() };
        let mut order = Vec::new();
        for i in 0..rng.below(6) {
            let names = ["", "-", "limit", "\"", "\\", "\u{7f}\u{9f}\n", "\u{e9} desc", "9", ", b"];
            let name = format!("{}{i}{}", rng.pick(&names), rng.pick(&names));
            let Some(roles) = roles(&mut rng) else { continue };
            let mut field = Field::new(name, *rng.pick(&Type::ALL), roles);
            field.multi = !roles.sortable && rng.below(2) == 0;
            field.nullable = rng.below(2) == 0;
            let indexed = roles.filterable || roles.sortable;
            field.scanned = indexed && !field.multi && rng.below(2) == 0;
            if roles.sortable {
                let descending = rng.below(2) == 0;
                order.push(OrderBy { field: field.name.clone(), descending });
            }
            schema.add(field).unwrap();
        }
        for (a, b) in (0..schema.fields.len()).zip(1..schema.fields.len()) {
            let _ = schema.add_point([b, a]);
        }
        let level = 1 + rng.below(19);
        let zstd = Payload::Zstd { level, dictionary: rng.below(2) == 0 };
        let payload = *rng.pick(&[Payload::Raw, zstd]);
        let schema = schema.order_by(order).unwrap().payload(payload);
        let text = schema.to_toml();
        assert_eq!(Schema::from_toml(&text).unwrap(), schema, "{text}");
    }
}

fn roles(rng: &mut Rng) -> Option<Roles> {
    Roles::from_code(rng.below(8) as u8).filter(|roles| *roles != Roles::default())
}

#[test]
fn order_keys_may_be_literal_names_or_sort_keys() {
    let text = "order = ['-limit', '9a', '-a b', 'b desc']\n[fields]\nlimit = 'i64 full'\n\
                9a = 'i64 full'\n'a b' = 'i64 full'\nb = 'i64 full'";
    let order: Vec<String> =
        Schema::from_toml(text).unwrap().order().iter().map(|key| key.to_string()).collect();
    assert_eq!(order, ["\"limit\" desc", "\"9a\"", "\"a b\" desc", "b desc"]);
}

/// An invalid text, the part that the error's span covers, and the message ("..." is the rest).
const INVALID: &[(&str, &str, &str)] = &[
    ("[fields]\na = 'i63 full'", "'i63 full'", "line 2: `i63` is not a type; did you mean `i64`?"),
    ("[fields]\na = ''", "''", "line 2: a field is its type and its roles"),
    ("[fields]\na = 'i64'", "a", "line 2: field `a` has no role; give it one of filterable, ..."),
    ("[fields]\na = 'i64 ful'", "'i64 ful'", "line 2: `ful` is not a role; did you mean `full`?"),
    (
        "[fields]\na = 'i64 x'",
        "'i64 x'",
        "line 2: `x` is not a role; there are full, filterable, ...",
    ),
    (
        "[fields]\na = 5",
        "5",
        "line 2: expected a string or an array of strings, found a value of ...",
    ),
    ("[fields]\na = 'i64 full'\na = 'i64 full'", "a", "line 3: duplicate key"),
    ("[fields]\na = 'i64 full multi'", "a", "line 2: field `a` is multi-valued and sortable; ..."),
    ("[fields]\n'' = 'i64 full'", "''", "line 2: a field's name has 0 bytes; it may have 1 to 255"),
    ("fields = 1", "1", "line 1: expected a table, found a value of type integer"),
    ("[feilds]", "feilds", "line 1: `feilds` is not a key; did you mean `fields`?"),
    ("[fields]\n[[field]]", "field", "line 2: a schema has either [[field]] or [fields]"),
    ("[field]\nname = 'a'", "field", "line 1: a field is written [[field]]; or use [fields]"),
    ("[[field]]\ntype = 'i64'", "[[field]]", "line 1: the field has no `name`"),
    ("\n[[field]]\nname = 'a'", "[[field]]", "line 2: the field has no `type`"),
    (
        "[[field]]\nrols = 'full'",
        "rols",
        "line 2: `rols` is not a key of a field; did you mean ...",
    ),
    ("[[field]]\nmulti = 1", "1", "line 2: expected true or false, found a value of type integer"),
    ("[[field]]\nname = 1", "1", "line 2: expected a string, found a value of type integer"),
    ("[[field]]\nroles = ['full', 1]", "1", "line 2: expected a string, found a value of ..."),
    ("order = 'a'", "'a'", "line 1: expected an array of fields, ..."),
    (
        "order = ['b']\nfields.a = 'i64 full'",
        "['b']",
        "line 1: there is no field `b`; fields are `a`",
    ),
    (
        "order = ['a']\nfields.a = 'i64 stored'",
        "['a']",
        "line 1: documents cannot be ordered by `a`: ...",
    ),
    ("points = 'a'", "'a'", "line 1: expected pairs of fields, ..."),
    ("points = [['a']]", "['a']", "line 1: expected pairs of fields, ..."),
    (
        "points = [['a', 'b']]\nfields.a = 'i64 filterable'",
        "'b'",
        "line 1: there is no field `b`; fields are `a`",
    ),
    (
        "points = [['a', 'a']]\nfields.a = 'i64 filterable'",
        "['a', 'a']",
        "line 1: field `a` cannot be both parts of a point",
    ),
    ("dynamic = true", "true", "line 1: expected a string or an array of strings, ..."),
    ("dynamic = ''", "''", "line 1: fields that come into being need a role; ..."),
    ("payload = {}", "payload", "line 1: the payload has no `compression`: zstd or none"),
    (
        "payload.compression = 'gzip'",
        "'gzip'",
        "line 1: `gzip` is not a compression; there are ...",
    ),
    ("[payload]\nlevel = 20", "20", "line 2: `level` is an integer, 1 to 19"),
    ("[payload]\nlevel = '3'", "'3'", "line 2: `level` is an integer, 1 to 19"),
    ("[payload]\nlevl = 3", "levl", "line 2: `levl` is not a key of the payload; did you mean ..."),
    ("a = ", "", "line 1: ..."),
    (
        "[payload]\ncompression = 'none'\nlevel = 3",
        "payload",
        "line 1: `level` and `dictionary` are ...",
    ),
];

#[test]
fn errors_name_the_line_and_have_spans() {
    for (text, part, pattern) in INVALID {
        let error = Schema::from_toml(text).expect_err(text);
        let shown = point_at(text, &error);
        let (start, end) = error.span().unwrap();
        assert_eq!(&text[start..end], *part, "{shown}");
        let pieces: Vec<&str> = pattern.split("...").collect();
        let fits = error.message().starts_with(pieces[0])
            && (pieces.len() > 1 || error.message() == *pattern);
        assert!(fits, "{shown}");
    }
}

#[test]
fn damaged_schemas_never_panic() {
    let mut rng = Rng(0x70_312);
    println!("seed {:#x}", rng.0);
    for _ in 0..5_000 {
        let mut text: Vec<char> = rng.pick(&[FULL_FORM, COMPACT_FORM]).chars().collect();
        for _ in 0..1 + rng.below(3) {
            if text.is_empty() {
                break;
            }
            let (at, from) = (rng.below(text.len()), rng.below(text.len()));
            match rng.below(3) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, text[from]),
                _ => text.truncate(at + 1),
            }
        }
        let text: String = text.into_iter().collect();
        match Schema::from_toml(&text) {
            Ok(schema) => assert_eq!(Schema::from_toml(&schema.to_toml()).unwrap(), schema),
            Err(error) => assert!(point_at(&text, &error).contains("line "), "{text}"),
        }
    }
}
