//! The query builders, and the text form of filters and queries.

use crate::search::model::query::*;

#[test]
fn builders_build_the_tree() {
    assert_eq!(all(), Filter::All);
    assert_eq!(eq("a", 1i64), Filter::Compare("a".into(), Op::Eq, Value::I64(1)));
    assert_eq!(lt("a", 1u8), Filter::Compare("a".into(), Op::Lt, Value::U64(1)));
    assert_eq!(lte("a", 1.5), Filter::Compare("a".into(), Op::Lte, Value::F64(1.5)));
    assert_eq!(gt("a", "b"), Filter::Compare("a".into(), Op::Gt, Value::Str("b".into())));
    assert_eq!(gte("a", true), Filter::Compare("a".into(), Op::Gte, Value::Bool(true)));
    assert_eq!(is_in("a", ["b"]), Filter::In("a".into(), vec!["b".into()]));
    assert_eq!(between("a", 1i64, 2i64), Filter::Between("a".into(), 1i64.into(), 2i64.into()));
    assert_eq!(prefix("a", "b"), Filter::Prefix("a".into(), "b".into()));
    assert_eq!(not(exists("a")), Filter::Not(Box::new(Filter::Exists("a".into()))));
    assert_eq!(and([all()]), Filter::And(vec![Filter::All]));
    assert_eq!(or([all()]), Filter::Or(vec![Filter::All]));
    let token = PageToken { keys: vec![None], partition: "p".into(), doc: 1 };
    let key = desc("a");
    let query = Query::new(all()).order_by(key.clone()).skip(1).limit(2).after(token.clone());
    let expected = Query {
        filter: Filter::All,
        order: vec![key],
        skip: 1,
        limit: Some(2),
        after: Some(token),
        count: true,
    };
    assert_eq!(query.with_count(), expected);
}

#[test]
fn filters_are_displayed_in_readable_form() {
    let filter = and([
        or([eq("region", 1i64), is_in("mark", ["BMW", "O'Neil"])]),
        not(between("price", 1.0, f64::INFINITY)),
        gte("date", Value::Timestamp(0)),
        prefix("order by", vec![0u8, 0xFF]),
        exists("limit"),
    ]);
    assert_eq!(
        filter.to_string(),
        "(region = 1 or mark in ('BMW', 'O''Neil')) and not price between 1.0 and inf \
         and date >= timestamp '1970-01-01T00:00:00Z' and \"order by\" prefix x'00ff' \
         and exists \"limit\""
    );
    let query = Query::new(all()).order_by(desc("-a")).order_by(asc("b")).skip(5).limit(0);
    assert_eq!(query.to_string(), "all order by \"-a\" desc, b skip 5 limit 0");
}
