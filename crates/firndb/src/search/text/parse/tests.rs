//! Examples of the grammar, and of invalid texts with the span and message of their errors.

use crate::search::model::names::KEYWORDS;
use crate::search::model::query::{Op, OrderBy, all, and, asc, between, desc, eq, exists, gt, gte};
use crate::search::model::query::{is_in, lt, lte, not, or, prefix};
use crate::search::model::schema::{Field, Roles};
use crate::search::model::types::Type;
use crate::search::plan::Plan;
use crate::search::point_at;
use crate::search::text::parse::*;

mod random;

fn schema() -> Schema {
    Schema::new([
        Field::new("region", Type::I64, Roles::FILTERABLE),
        Field::new("price", Type::F64, Roles::FULL),
        Field::new("views", Type::U64, Roles::FULL),
        Field::new("date", Type::Timestamp, Roles::FULL),
        Field::new("new", Type::Bool, Roles::FILTERABLE),
        Field::new("mark", Type::String, Roles::FULL),
        Field::new("hash", Type::Bytes, Roles::FILTERABLE),
        Field::new("tags", Type::String, Roles::FILTERABLE).multi(),
        Field::new("note", Type::String, Roles::STORED),
        Field::new("limit", Type::I64, Roles::FULL),
    ])
    .unwrap()
}

#[track_caller]
fn check(text: &str, expected: Filter) {
    assert_eq!(parse_filter(text, None).unwrap(), expected, "{text}");
    assert_eq!(parse_query(text, None).unwrap(), Query::new(expected.clone()), "{text}");
    assert_eq!(parse_filter(&format!("WHERE ({text})"), None).unwrap(), expected, "{text}");
}

#[test]
fn comparisons() {
    for (symbol, op) in [("=", Op::Eq), ("==", Op::Eq), ("<", Op::Lt), ("<=", Op::Lte)] {
        check(&format!("a {symbol} 1"), Filter::Compare("a".into(), op, 1i64.into()));
        check(&format!("a{symbol}1"), Filter::Compare("a".into(), op, 1i64.into()));
    }
    check("a > 1", gt("a", 1i64));
    check("a >= -1", gte("a", -1i64));
    check("a != 1", not(eq("a", 1i64)));
    check("a<>-1", not(eq("a", -1i64)));
    check("a in (1, 'x', 2.5)", Filter::In("a".into(), vec![1i64.into(), "x".into(), 2.5.into()]));
    check("a IN()", is_in::<i64>("a", []));
    check("a NOT IN (1)", not(is_in("a", [1i64])));
    check("a between 1 and 2 and b = 3", and([between("a", 1i64, 2i64), eq("b", 3i64)]));
    check("a not between 1 and 2", not(between("a", 1i64, 2i64)));
    check("a prefix 'x%'", prefix("a", "x%"));
    check("a not prefix x'00fF'", not(prefix("a", vec![0, 0xFF])));
    check("a LIKE 'abc%'", prefix("a", "abc"));
    check("a not like '%'", not(prefix("a", "")));
    check("a like 'abc'", eq("a", "abc"));
    check("a is null", not(exists("a")));
    check("a is not null", exists("a"));
    check("exists a", exists("a"));
    check("exists(a) or not exists (b)", or([exists("a"), not(exists("b"))]));
    check("a", eq("a", true));
    check("a and not b", and([eq("a", true), not(eq("b", true))]));
}

#[test]
fn literals() {
    check("a = 1_000_000", eq("a", 1_000_000i64));
    check("a = -9223372036854775808", eq("a", i64::MIN));
    check("a = 9223372036854775807", eq("a", i64::MAX));
    check("a = 9223372036854775808", eq("a", 1u64 << 63));
    check("a = 18446744073709551615", eq("a", u64::MAX));
    check("a = 1.5", eq("a", 1.5));
    check("a = -1e-6", eq("a", -1e-6));
    check("a = 1E+6", eq("a", 1e6));
    check("a = -.5", eq("a", -0.5));
    check("a < inf", lt("a", f64::INFINITY));
    check("a >= -INF", gte("a", f64::NEG_INFINITY));
    check("a = 'it''s'", eq("a", "it's"));
    check("a = ''", eq("a", ""));
    check("a = 'caf\u{e9} \u{1f600}'", eq("a", "caf\u{e9} \u{1f600}"));
    check("a = X''", eq("a", Vec::<u8>::new()));
    check("a = True", eq("a", true));
    check("a <= timestamp '1970-01-01T00:00:01Z'", lte("a", Value::Timestamp(1_000_000)));
    check("a = timestamp '1970-01-02'", eq("a", Value::Timestamp(86_400_000_000)));
    let earliest = Value::Timestamp(i64::MIN);
    check(&format!("a = timestamp '{}'", i64::MIN), eq("a", earliest));
}

#[test]
fn names() {
    check("x = 1", eq("x", 1i64));
    check("a.b_c2 = 1", eq("a.b_c2", 1i64));
    check("_a = 1", eq("_a", 1i64));
    check("\u{446}\u{435}\u{43d}\u{430} = 1", eq("\u{446}\u{435}\u{43d}\u{430}", 1i64));
    check("\"order by\" = 1", eq("order by", 1i64));
    check("\"a\"\"b\" = 1", eq("a\"b", 1i64));
    check("\"Limit\" = 1", eq("Limit", 1i64));
    check("timestamp = 1", eq("timestamp", 1i64));
    check("inf = inf", eq("inf", f64::INFINITY));
}

#[test]
fn precedence_and_grouping() {
    let [a, b, c] = ["a", "b", "c"].map(|name| eq(name, true));
    check("a or b and c", or([a.clone(), and([b.clone(), c.clone()])]));
    check("(a or b) and c", and([or([a.clone(), b.clone()]), c.clone()]));
    check("not a and b", and([not(a.clone()), b.clone()]));
    check("not (a and b)", not(and([a.clone(), b.clone()])));
    check("((a)) Or\tb\nOR c", or([a.clone(), b.clone(), c.clone()]));
    check("NOT NOT a", not(not(a)));
    check("all", all());
    check("not all", not(all()));
}

#[test]
fn empty_text_star_and_all_match_everything() {
    for text in ["", "  \n ", "*", "all", "where *"] {
        assert_eq!(parse_filter(text, None).unwrap(), all(), "{text}");
        let paged = format!("{text} limit 5");
        assert_eq!(parse_query(&paged, None).unwrap(), Query::new(all()).limit(5), "{paged}");
    }
}

#[test]
fn queries() {
    let page = Query::new(eq("a", 1i64)).skip(20).limit(10);
    let ordered = page.clone().order_by(desc("b"));
    let ordered = ordered.order_by(asc("c"));
    for text in ["a = 1 skip 20 limit 10", "where a = 1 limit 10 offset 20"] {
        assert_eq!(parse_query(text, None).unwrap(), page, "{text}");
    }
    for text in
        ["a = 1 order by -b, c skip 20 limit 10", "a = 1 LIMIT 10 ORDER BY b DESC, c ASC OFFSET 20"]
    {
        assert_eq!(parse_query(text, None).unwrap(), ordered, "{text}");
    }
    let token = PageToken { keys: vec![None, Some(7i64.into())], partition: "p 1".into(), doc: 3 };
    let text = format!("a = 1 order by b desc, c after {token} skip 20 limit 10");
    let continued = ordered.after(token);
    assert_eq!(parse_query(&text, None).unwrap(), continued);
    assert_eq!(parse_query(&continued.to_string(), None).unwrap(), continued);
    // A repeated field needs no key in the page token, here as in the executor.
    let repeated = continued.clone().order_by(asc("b"));
    assert_eq!(parse_query(&repeated.to_string(), None).unwrap(), repeated);
    let keys = parse_order(" -b ,c", None).unwrap();
    assert_eq!(keys, continued.order);
    assert_eq!(parse_order("", None).unwrap(), []);
}

#[test]
fn literals_take_the_type_of_their_field() {
    let schema = schema();
    let read = |text| parse_filter(text, Some(&schema)).unwrap();
    assert_eq!(read("date >= '1970-01-01'"), gte("date", Value::Timestamp(0)));
    let late = Value::Timestamp(1_500_000);
    assert_eq!(read("date = '1970-01-01T03:00:01.5+03:00'"), eq("date", late.clone()));
    assert_eq!(read("date in ('1970-01-01 00:00:01.5')"), is_in("date", [late]));
    assert_eq!(read("hash prefix 'ab'"), prefix("hash", b"ab".to_vec()));
    assert_eq!(read("hash like 'ab%'"), prefix("hash", b"ab".to_vec()));
    assert_eq!(read("region < 10.5 and price = 7"), and([lt("region", 10.5), eq("price", 7i64)]));
    assert_eq!(read("new and exists tags"), and([eq("new", true), exists("tags")]));
    assert_eq!(read("\"limit\" = 1"), eq("limit", 1i64));
    let dynamic = Schema::dynamic(Roles::FILTERABLE);
    assert_eq!(parse_filter("later = 1", Some(&dynamic)).unwrap(), eq("later", 1i64));
}

/// An invalid text, the part of it that the error's span covers ("" is the end), and the pattern
/// of the message ("..." matches anything).
const INVALID: &[(&str, &str, &str)] = &[
    ("regoin = 1", "regoin", "there is no field `regoin`; fields are `region`, ..."),
    ("nto new", "nto", "...; or did you mean `not`?"),
    ("note = 'a'", "note", "field `note` is not filterable; filterable fields: `region`, ..."),
    ("exists note", "note", "field `note` is not filterable; ..."),
    ("all order by region", "region", "field `region` is not sortable; ...: `price`, ..."),
    ("all order by -tags", "tags", "field `tags` is not sortable; ..."),
    ("region = 'msk'", "'msk'", "field `region` is of type i64; ... with 'msk', ..."),
    ("region in (1, true)", "true", "field `region` is of type i64; ...which is of type bool"),
    ("price between 1 and 'b'", "'b'", "field `price` is of type f64; ..."),
    ("mark = 5", "5", "field `mark` is of type string; ... with 5, ..."),
    ("date > 'soon'", "'soon'", "field `date` is of type timestamp; 'soon' is not a time ..."),
    ("date > timestamp 'soon'", "'soon'", "'soon' is not a time ..."),
    ("date > 2013-01-01", "2013-01-01", "a time goes in quotes: '2013-01-01'"),
    ("region prefix 'a'", "region prefix 'a'", "field `region` is of type i64; only ..."),
    ("mark prefix 5", "mark prefix 5", "field `mark` is of type string; ..."),
    ("region", "", "expected an operator ... after `region`, found the end"),
    ("limit = 1", "=", "expected a number ...; a field of this name is written \"limit\""),
    ("new and limit = 1", "limit", "...; a field of this name is written \"limit\""),
    ("region = 1 adn new", "adn", "...found `adn`; did you mean `and`?"),
    ("new oder by price", "oder", "...; did you mean `order`?"),
    ("new order price", "price", "expected `by`, found `price`"),
    ("new order bye price", "bye", "expected `by`, found `bye`; did you mean `by`?"),
    ("region betwen 1 and 2", "betwen", "...; did you mean `between`?"),
    ("region between 1, 2", ",", "expected `and`, found `,`"),
    ("region = 1 and", "", "expected a condition, found the end"),
    ("region = 1 and and new", "and", "expected a condition, found the keyword `and`; ..."),
    ("(region = 1", "", "expected `and`, `or` or `)`, found the end"),
    ("region = 1)", ")", "expected `and`, `or`, `order by`, ..."),
    ("region in 1", "1", "expected `(` and the values after `in`, found `1`"),
    ("region in (1 2)", "2", "expected `,` or `)`, found `2`"),
    ("region in (1,)", ")", "expected a value, found `)`"),
    ("region = 1 2", "2", "expected `and`, `or`, ..."),
    ("mark = moscow", "moscow", "expected a value, found `moscow`; ...in single quotes: 'moscow'"),
    ("mark = \"a\"", "\"a\"", "...text goes in single quotes"),
    ("mark = null", "null", "nothing equals null; write `is null` or `is not null`"),
    ("mark is empty", "empty", "expected `null`, found `empty`"),
    ("mark not = 'a'", "=", "expected `in`, `between`, `prefix` or `like`, found `=`"),
    ("mark like '%a'", "'%a'", "`like` takes a single % at the end ..."),
    ("mark like 'a_c%'", "'a_c%'", "`like` takes a single % at the end ..."),
    ("mark like 5", "5", "expected a pattern like 'abc%' after `like`, found `5`"),
    ("mark = 'abc", "'abc", "the closing ' is missing"),
    ("hash = x'0g'", "x'0g'", "bytes are pairs of hexadecimal digits: x'00ff'"),
    ("hash = x'012'", "x'012'", "bytes are pairs of hexadecimal digits: x'00ff'"),
    ("region = 12abc", "12abc", "`12abc` is not a number; ..."),
    ("region = 1__0", "1__0", "`1__0` is not a number; ..."),
    ("region = 18446744073709551616", "18446744073709551616", "...does not fit 64 bits; ..."),
    ("price = -1e-999", "-1e-999", "...is too small for a double-precision number"),
    ("price = 1e999", "1e999", "...is too large for a double-precision number; ..."),
    ("price < -infinity", "infinity", "expected a number or `inf` after `-`, ..."),
    ("5 < region", "5", "expected a condition, found `5`"),
    ("new & new", "&", "`&` is not part of the query language; write `and`"),
    ("region =< 5", "=<", "`=<` is not part of the query language; write `<=`"),
    ("!new", "!", "`!` is not part of the query language; write `not`"),
    ("region = 5;", ";", "the character `;` means nothing here"),
    ("new limit -5", "-5", "expected a number of documents after `limit`, found `-5`"),
    ("new skip 1.5", "1.5", "expected a number of documents after `skip`, found `1.5`"),
    ("new limit 5 skip 1 limit", "limit", "`limit` is given twice"),
    ("new skip 5 offset", "offset", "`skip` is given twice"),
    ("new order by", "", "expected the field to order by, found the end"),
    ("new after", "", "expected the page token of a hit, found the end"),
    ("new after i5~q", "i5~q", "this is not a page token; ..."),
    ("new after i5~pa~d1", "i5~pa~d1", "the page token has 1 keys, the order has 0; ..."),
    ("nex", "nex", "there is no field `nex`; fields are `new`, ..."),
    ("all where new", "where", "expected `and`, `or`, ..."),
];

/// Whether a message matches a pattern, in which `...` stands for any text.
fn matches(message: &str, pattern: &str) -> bool {
    let pieces: Vec<&str> = pattern.split("...").collect();
    let (first, last) = (pieces[0], pieces[pieces.len() - 1]);
    let mut rest = message;
    let ordered = pieces.iter().all(|piece| match rest.split_once(piece) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    });
    ordered && message.starts_with(first) && message.ends_with(last)
}

#[test]
fn errors_have_spans_and_messages() {
    let schema = schema();
    for (text, part, pattern) in INVALID {
        let error = parse_query(text, Some(&schema)).expect_err(text);
        let start = if part.is_empty() { text.len() } else { text.rfind(part).unwrap() };
        assert_eq!(error.span(), Some((start, start + part.len())), "{}", point_at(text, &error));
        assert!(matches(error.message(), pattern), "{text}: {}", error.message());
    }
}

#[test]
fn errors_without_a_schema() {
    let error = parse_filter("nto a = 1", None).unwrap_err();
    assert_eq!(error.span(), Some((4, 5)));
    assert!(error.message().ends_with("after `nto`, found `a`; did you mean `not`?"));
    let error = parse_filter("a = 1 limit 5", None).unwrap_err();
    assert_eq!(error.span(), Some((6, 11)));
    let error = parse_order("a b", None).unwrap_err();
    assert_eq!(error.message(), "expected `,` or the end of the order, found `b`");
}

#[test]
fn depth_and_list_limits_are_enforced() {
    let nested = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
    assert!(parse_filter(&nested(MAX_DEPTH - 1), None).is_ok());
    for text in [nested(MAX_DEPTH), nested(1_000_000), "not ".repeat(1_000_000)] {
        let error = parse_filter(&text, None).unwrap_err();
        assert_eq!(error.message(), "the condition is nested more than 128 deep");
    }
    // A level may contain an `or` and an `and`: the tree is deeper than the text.
    let mut text = "a = 1".to_string();
    (0..MAX_DEPTH - 2).for_each(|_| text = format!("(a = 2 or a = 3 and {text})"));
    let filter = parse_filter(&text, None).unwrap();
    let fields = [Field::new("a", Type::I64, Roles::FULL)];
    Plan::new(&filter, &Schema::new(fields).unwrap()).unwrap();
    // A filter of many `not` round-trips.
    let filter = parse_filter(&("not ".repeat(MAX_DEPTH - 1) + "a = 1"), None).unwrap();
    assert_eq!(parse_filter(&filter.to_string(), None).unwrap(), filter);
    let list = |n: usize| format!("a in (0{})", ",1".repeat(n - 1));
    assert!(parse_filter(&list(MAX_IN), None).is_ok());
    let error = parse_filter(&list(MAX_IN + 1), None).unwrap_err();
    assert_eq!(error.message(), "the list of `in` has more than 65536 values");
}

#[test]
fn keywords_are_valid_names_in_quotes() {
    for word in KEYWORDS {
        let name = word.to_uppercase();
        let filter = eq(name.as_str(), 1i64);
        assert_eq!(parse_filter(&filter.to_string(), None).unwrap(), filter);
        assert!(parse_filter(&format!("a = 1 and {word} = 1"), None).is_err(), "{word}");
    }
}
