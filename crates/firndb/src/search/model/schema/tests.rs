//! Validation of schemas, and look-ups in them.

use crate::search::model::query::asc;
use crate::search::model::schema::*;

#[test]
fn types_and_roles_round_trip_as_names_and_codes() {
    for ty in Type::ALL {
        assert_eq!(Type::from_name(ty.name()), Some(ty));
        assert_eq!(Type::from_code(ty as u8), Some(ty));
    }
    assert_eq!(
        (Type::from_code(0), Type::from_code(8), Type::from_name("int")),
        (None, None, None)
    );
    let codes: Vec<u8> = Type::ALL.iter().map(|ty| *ty as u8).collect();
    assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7], "files depend on these numbers");
    for code in 0..8 {
        assert_eq!(Roles::from_code(code).unwrap().to_code(), code);
    }
    assert_eq!(Roles::from_code(8), None);
    assert_eq!(Roles::FULL, Roles::FILTERABLE.with(Roles::SORTABLE).with(Roles::STORED));
}

#[test]
fn invalid_fields_are_rejected() {
    let rejected = |field: Field, message: &str| {
        let error = Schema::new([Field::new("a", Type::I64, Roles::FULL), field]).unwrap_err();
        assert!(error.message().contains(message), "{error}");
    };
    let field = |name: &str| Field::new(name, Type::I64, Roles::FILTERABLE);
    rejected(field(""), "has 0 bytes; it may have 1 to 255");
    rejected(field(&"x".repeat(256)), "has 256 bytes");
    rejected(field("a"), "names field `a` twice");
    rejected(Field::new("b", Type::I64, Roles::default()), "field `b` has no role");
    rejected(Field::new("b", Type::I64, Roles::FULL).multi(), "multi-valued and sortable");
    assert!(Schema::new([field(&"x".repeat(255)), field("b").multi()]).is_ok());
    let names = (0..MAX_FIELDS).map(|i| field(&i.to_string()));
    let mut full = Schema::new(names).unwrap();
    assert_eq!(
        full.add(field("one more")).unwrap_err().message(),
        "a schema has at most 4096 fields"
    );
    assert_eq!(full.fields().len(), MAX_FIELDS);
}

#[test]
fn multi_valued_fields_are_nullable() {
    let field = Field::new("a", Type::I64, Roles::FILTERABLE);
    assert!(!field.multi && !field.nullable);
    assert!(field.clone().nullable().nullable && !field.clone().nullable().multi);
    assert!(field.clone().multi().multi && field.multi().nullable);
}

#[test]
fn multi_valued_and_stored_fields_cannot_be_scanned() {
    let message = |field: Field| Schema::new([field.scanned()]).unwrap_err().message().to_string();
    let several = Field::new("tags", Type::String, Roles::FILTERABLE).multi();
    assert_eq!(message(several), "field `tags` has several values: it cannot be scanned");
    let stored = Field::new("id", Type::U64, Roles::STORED);
    assert_eq!(message(stored), "field `id` is asked for nothing: it cannot be scanned");
    for roles in [Roles::FILTERABLE, Roles::SORTABLE, Roles::FULL] {
        Schema::new([Field::new("price", Type::I64, roles).scanned()]).unwrap();
    }
}

#[test]
fn document_order_requires_sortable_fields() {
    let schema = Schema::new([
        Field::new("price", Type::F64, Roles::SORTABLE),
        Field::new("region", Type::I64, Roles::FILTERABLE),
    ])
    .unwrap();
    let ordered = schema.clone().order_by([asc("price")]).unwrap();
    assert_eq!(ordered.order(), [asc("price")]);
    let error = schema.clone().order_by([asc("region")]).unwrap_err();
    assert_eq!(error.message(), "documents cannot be ordered by `region`: it is not sortable");
    let error = schema.order_by([asc("prize")]).unwrap_err();
    assert_eq!(error.message(), "there is no field `prize`; fields are `price`, `region`");
    let dynamic = Schema::dynamic(Roles::FULL).order_by([asc("later")]).unwrap();
    assert!(dynamic.is_dynamic() && !ordered.is_dynamic());
    let error = Schema::dynamic(Roles::STORED).order_by([asc("later")]).unwrap_err();
    assert!(error.message().contains("are not sortable here"), "{error}");
}

#[test]
fn unknown_field_error_lists_closest_names() {
    let names =
        ["region", "rating", "price", "date", "tags", "mark", "model", "year", "color", "x"];
    let fields = names.map(|name| Field::new(name, Type::I64, Roles::FULL));
    let schema = Schema::new(fields).unwrap();
    let message = schema.unknown("prise").message().to_string();
    assert!(message.starts_with("there is no field `prise`; fields are `price`, "), "{message}");
    assert!(message.ends_with(" and 2 more"), "{message}");
    let message = Schema::default().unknown("a").message().to_string();
    assert_eq!(message, "there is no field `a`; the schema has no fields");
    let message = schema.unknown(&"x".repeat(1 << 20)).message().to_string();
    assert!(message.len() < 200, "{message}");
    assert_eq!(schema.field("price").map(|(number, _)| number), Some(2));
    assert_eq!(schema.field("prise"), None);
}

#[test]
fn edit_distance_counts_single_character_edits() {
    for (a, b, distance) in [
        ("", "", 0),
        ("abc", "abc", 0),
        ("", "abc", 3),
        ("abc", "ab", 1),
        ("kitten", "sitting", 3),
        ("\u{e9}a", "ea", 1),
        ("adn", "and", 2),
    ] {
        assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        assert_eq!(edit_distance(b, a), distance, "{b} {a}");
    }
}

#[test]
fn schema_records_payload_storage() {
    let schema = Schema::new([Field::new("a", Type::I64, Roles::FULL)]).unwrap();
    assert_eq!(schema.payload_form(), Payload::Raw);
    let packed = Payload::Zstd { level: 3, dictionary: true };
    assert_eq!(schema.payload(packed).payload_form(), packed);
}
