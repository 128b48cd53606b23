//! Queries in JSON against the text form.

use super::*;
use firndb::search::{Field, MAX_DEPTH, MAX_IN, Roles, Type};
use serde_json::json;

fn schema() -> Schema {
    let full = |name, ty| Field::new(name, ty, Roles::FULL).nullable();
    Schema::new([
        full("price", Type::F64),
        full("id", Type::U64),
        full("n", Type::I64),
        full("city", Type::String),
        full("seen", Type::Timestamp),
        full("raw", Type::Bytes),
        full("open", Type::Bool),
        Field::new("tags", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi(),
    ])
    .unwrap()
}

fn message(json: Json) -> String {
    from_json(&schema(), &json).unwrap_err().to_string()
}

#[test]
fn conditions_are_those_of_the_text_form() {
    let schema = schema();
    let cases = [
        (json!({ "field": "price", "lt": 10 }), "price < 10"),
        (json!({ "field": "price", "gte": 0.5, "lt": 1e3 }), "price >= 0.5 and price < 1e3"),
        (json!({ "field": "price", "gt": "-inf" }), "price > -inf"),
        (json!({ "field": "price", "lte": "inf" }), "price <= inf"),
        (json!({ "field": "id", "eq": u64::MAX }), "id = 18446744073709551615"),
        (json!({ "field": "n", "ne": -5 }), "n != -5"),
        (json!({ "field": "n", "lt": 10.5 }), "n < 10.5"),
        (json!({ "field": "city", "in": ["Oslo", "O'Neil"] }), "city in ('Oslo', 'O''Neil')"),
        (json!({ "field": "city", "in": [] }), "city in ()"),
        (json!({ "field": "city", "prefix": "Os" }), "city prefix 'Os'"),
        (json!({ "field": "raw", "prefix": "00fF" }), "raw prefix x'00ff'"),
        (json!({ "field": "raw", "eq": "" }), "raw = x''"),
        (json!({ "field": "seen", "lt": "2013-01-01" }), "seen < timestamp '2013-01-01'"),
        (json!({ "field": "price", "between": [1, 2.5] }), "price between 1 and 2.5"),
        (json!({ "field": "open", "eq": true }), "open"),
        (json!({ "field": "tags", "exists": true }), "exists tags"),
        (json!({ "field": "tags", "exists": false }), "tags is null"),
        (json!({ "not": { "field": "n", "eq": 1 } }), "not n = 1"),
        (
            json!({ "and": [{ "or": [{ "field": "n", "eq": 1 }, { "field": "n", "eq": 2 }] },
                            { "field": "city", "eq": "x" }] }),
            "(n = 1 or n = 2) and city = 'x'",
        ),
    ];
    for (json, text) in cases {
        let filter = filter_from_json(&schema, &json).unwrap();
        assert_eq!(filter, parse_filter(text, Some(&schema)).unwrap(), "{json}");
        let object = json!({ "where": json, "top": 5 });
        assert_eq!(condition_of(&schema, object.as_object().unwrap()).unwrap(), filter);
    }
    let all = filter_from_json(&schema, &json!({ "and": [] })).unwrap();
    assert_eq!(all.to_string(), "all");
    assert_eq!(condition_of(&schema, &Map::new()).unwrap(), Filter::All);
}

#[test]
fn queries_are_those_of_the_text_form() {
    let schema = schema();
    let text = "price < 5 order by price desc, city skip 3 limit 4";
    let expected = parse_query(text, Some(&schema)).unwrap();
    let order = json!([{ "field": "price", "desc": true }, "city"]);
    let filter = json!({ "field": "price", "lt": 5 });
    let json = json!({ "where": filter, "order": order, "skip": 3, "limit": 4 });
    assert_eq!(from_json(&schema, &json).unwrap(), expected);
    assert_eq!(from_json(&schema, &json!({ "query": text })).unwrap(), expected);
    assert_eq!(from_json(&schema, &json!({})).unwrap(), Query::new(Filter::All));
    let nothing = json!({ "query": null, "where": null, "order": null, "after": null });
    assert_eq!(from_json(&schema, &nothing).unwrap(), Query::new(Filter::All));
    // Members take precedence over the text, and a token over `skip`.
    let json = json!({ "query": text, "limit": 7, "after": "n~sx~pp~d1", "count": true });
    let query = from_json(&schema, &json).unwrap();
    assert_eq!((query.limit, query.skip, query.count), (Some(7), 0, true));
    assert_eq!(query.after.unwrap().to_string(), "n~sx~pp~d1");
    let text = "order by city skip 2 after n~pp~d1";
    let expected = parse_query(text, Some(&schema)).unwrap();
    assert_eq!(from_json(&schema, &json!({ "query": text })).unwrap(), expected);
}

#[test]
fn errors_name_the_place_and_the_field() {
    let of = |filter: Json| message(json!({ "where": filter }));
    assert_eq!(
        of(json!({ "and": [{ "field": "n", "eq": 1 }, { "field": "price", "lt": "x" }] })),
        "where.and[1].lt: field `price` is of type f64; it cannot be compared with 'x', which is \
         of type string"
    );
    let name = |text: &str| json!({ "field": "city", text: 1 });
    assert!(of(name("eq")).starts_with("where.eq: field `city` is of type string"));
    assert!(of(name("like")).starts_with("where: `like` is unknown: comparisons are eq, ne"));
    assert!(
        of(json!({ "field": "citi", "eq": "x" })).contains("no field `citi`; fields are `city`")
    );
    assert!(of(json!({ "field": "n" })).contains("lacks a comparison"));
    assert!(of(json!({ "field": 5, "eq": 1 })).contains("`field` is the name of a field"));
    assert!(of(json!({ "field": "n", "eq": null })).contains("where.eq: nothing equals null"));
    assert!(of(json!({ "field": "n", "eq": [1] })).contains("a value is a number, a text"));
    assert!(of(json!({ "field": "n", "in": [1, "x"] })).starts_with("where.in[1]: field `n`"));
    assert!(of(json!({ "field": "n", "in": 1 })).contains("an array of values"));
    assert!(of(json!({ "field": "n", "between": [1] })).contains("an array of two values"));
    assert!(of(json!({ "field": "n", "prefix": "1" })).contains("only fields of type string"));
    assert!(of(json!({ "field": "city", "prefix": 1 })).contains("field `city`"));
    assert!(of(json!({ "field": "n", "exists": 1 })).contains("true or false"));
    assert!(of(json!({ "field": "raw", "eq": "0" })).contains("hexadecimal digits"));
    assert!(of(json!({ "field": "price", "eq": "nan" })).contains("of type string"));
    assert!(
        of(json!({ "field": "seen", "eq": "yesterday" })).contains("'yesterday' is not a time")
    );
    for filter in [json!({}), json!([]), json!("n = 1"), json!({ "and": [], "or": [] })] {
        assert!(of(filter).starts_with("where: a condition is an object"));
    }
    assert!(of(json!({ "xor": [] })).starts_with("where: `xor` is unknown"));
    assert!(of(json!({ "and": {} })).starts_with("where.and: this is an array"));
    let long = "x".repeat(1 << 20);
    for filter in [
        json!({ "field": "n", "eq": long }),
        json!({ "field": long, "eq": 1 }),
        json!({ "field": "n", long.clone(): 1 }),
        json!({ long.clone(): 1 }),
        json!({ "field": "seen", "eq": long }),
        json!({ "field": "raw", "eq": long }),
    ] {
        assert!(of(filter).len() < 400);
    }
}

#[test]
fn other_members_are_checked() {
    assert!(message(json!([])).contains("a query is a JSON object"));
    assert!(message(json!({ "wher": {} })).starts_with("`wher` is unknown: a query has `query`"));
    assert!(message(json!({ "query": 5 })).starts_with("query:"));
    assert!(message(json!({ "query": "n = 1", "where": {} })).contains("either"));
    assert!(message(json!({ "query": "n = 1", "order": [] })).contains("`order` is given twice"));
    for wrong in [json!(-1), json!(1.5), json!("5"), json!(true)] {
        assert!(message(json!({ "limit": wrong })).starts_with("limit: this is a whole number"));
    }
    assert!(message(json!({ "count": 1 })).starts_with("count: this is true or false"));
    assert!(message(json!({ "after": 1 })).starts_with("after:"));
    assert!(message(json!({ "after": "x" })).contains("not a page token"));
    assert!(message(json!({ "order": "n" })).contains("an array of fields"));
    assert!(
        message(json!({ "order": ["n", "tags"] })).starts_with("order[1]: field `tags` is not")
    );
    assert!(message(json!({ "order": [{ "desc": true }] })).starts_with("order[0]: `field`"));
    assert!(message(json!({ "order": [{ "field": "n", "asc": true }] })).contains("`asc`"));
    let error = from_json(&schema(), &json!({ "query": "n = 'x'" })).unwrap_err();
    assert_eq!(error.span(), Some((4, 7)));
    let object = json!({ "by": ["a", 1], "top": 3, "one": ["a"] });
    let object = object.as_object().unwrap();
    assert!(texts(object, "by", 2).is_err() && texts(object, "by", 1).is_err());
    assert_eq!(texts(object, "one", 1).unwrap().unwrap(), ["a"]);
    assert!(texts(object, "one", 0).is_err());
    assert_eq!(number(object, "top").unwrap(), Some(3));
}

#[test]
fn numbers_that_no_type_holds_are_errors() {
    for text in ["1e999", "-1e999", "1e-999", "123456789012345678901234567890"] {
        let json = format!(r#"{{ "where": {{ "field": "price", "eq": {text} }} }}"#);
        let json: Json = serde_json::from_str(&json).unwrap();
        assert!(message(json).contains("fits neither"), "{text}");
    }
    let long = format!(r#"{{ "where": {{ "field": "n", "eq": {} }} }}"#, "9".repeat(1 << 20));
    assert!(message(serde_json::from_str(&long).unwrap()).len() < 400);
}

#[test]
fn depth_and_list_limits_are_enforced() {
    let schema = schema();
    let nested = |levels: usize, key: &str| {
        let mut json = json!({ "field": "n", "ne": 1, "exists": false });
        for _ in 0..levels {
            let inner = if key == "not" { json } else { Json::Array(vec![json]) };
            json = Json::Object(Map::from_iter([(key.to_string(), inner)]));
        }
        json
    };
    for key in ["and", "or", "not"] {
        assert!(filter_from_json(&schema, &nested(MAX_DEPTH - 1, key)).is_ok());
        let error = filter_from_json(&schema, &nested(MAX_DEPTH, key)).unwrap_err();
        assert!(error.message().ends_with("nested more than 128 deep"), "{error}");
        // The recursion stops there: the rest of the tree does not matter. Dropping a deep tree is
        // up to its owner, and JSON texts nest at most 128 levels.
        assert!(filter_from_json(&schema, &nested(2_000, key)).is_err());
    }
    let list = |n: usize| json!({ "field": "n", "in": vec![1; n] });
    assert!(filter_from_json(&schema, &list(MAX_IN)).is_ok());
    let error = filter_from_json(&schema, &list(MAX_IN + 1)).unwrap_err();
    assert!(error.message().contains("more than 65536 values"));
}
