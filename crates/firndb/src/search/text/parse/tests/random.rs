//! Properties over random input: filters round-trip as text, and no text makes the parser panic.

use crate::search::model::names::KEYWORDS;
use crate::search::model::query::Filter;
use crate::search::testing::Rng;
use crate::search::text::parse::tests::*;

const NAMES: [&str; 8] = ["a", "price", "order", "a b", "x", "q\"q", "\u{e9}t\u{e9}.1", "9a"];
const OPS: [Op; 5] = [Op::Eq, Op::Lt, Op::Lte, Op::Gt, Op::Gte];

/// A random value that round-trips as text: the parser reads small unsigned numbers as signed.
fn value(rng: &mut Rng) -> Value {
    let ty = *rng.pick(&Type::ALL);
    match rng.value(ty) {
        Value::U64(v) => i64::try_from(v).map_or(Value::U64(v), Value::I64),
        value => value,
    }
}

fn filter(rng: &mut Rng, depth: usize) -> Filter {
    let name = rng.pick(&NAMES).to_string();
    let few = 2 + rng.below(3);
    match rng.below(if depth == 0 { 6 } else { 9 }) {
        0 => Filter::All,
        1 => Filter::Compare(name, *rng.pick(&OPS), value(rng)),
        2 => Filter::In(name, (0..rng.below(4)).map(|_| value(rng)).collect()),
        3 => Filter::Between(name, value(rng), value(rng)),
        4 => Filter::Prefix(name, value(rng)),
        5 => Filter::Exists(name),
        6 => Filter::And((0..few).map(|_| filter(rng, depth - 1)).collect()),
        7 => Filter::Or((0..few).map(|_| filter(rng, depth - 1)).collect()),
        _ => not(filter(rng, depth - 1)),
    }
}

#[test]
fn filters_and_queries_round_trip_as_text() {
    let mut rng = Rng(0x5EED_0001);
    println!("seed {:#x}", rng.0);
    for _ in 0..10_000 {
        let depth = rng.below(4);
        let filter = filter(&mut rng, depth);
        let text = filter.to_string();
        assert_eq!(parse_filter(&text, None).unwrap(), filter, "{text}");
        let mut query = Query::new(filter).skip(rng.next() >> rng.below(64));
        query.limit = Some(rng.next()).filter(|v| v % 2 == 0);
        for _ in 0..rng.below(3) {
            let field = rng.pick(&NAMES).to_string();
            query = query.order_by(OrderBy { field, descending: rng.below(2) == 1 });
        }
        assert_eq!(parse_query(&query.to_string(), None).unwrap(), query, "{query}");
    }
}

#[test]
fn empty_and_single_lists_keep_their_meaning() {
    for (filter, text) in [
        (and([]), "all"),
        (or([]), "not all"),
        (and([eq("a", 1i64)]), "a = 1"),
        (and([or([]), or([eq("a", 1i64), all()])]), "(not all) and (a = 1 or all)"),
    ] {
        assert_eq!(filter.to_string(), text);
        assert!(parse_filter(text, None).is_ok());
    }
}

/// Calls every parser with a text and checks that the spans of errors lie within it and can be
/// shown.
fn parse_all_ways(text: &str, schema: &Schema) {
    for schema in [None, Some(schema)] {
        let errors = [
            parse_filter(text, schema).err(),
            parse_query(text, schema).err(),
            parse_order(text, schema).err(),
            PageToken::parse(text).err().map(|e| e.with_span(0, text.len())),
        ];
        for error in errors.into_iter().flatten() {
            let (start, end) = error.span().unwrap_or_else(|| panic!("no span: {text:?}"));
            assert!(start <= end && text.get(start..end).is_some(), "{text:?}: {error}");
            assert!(point_at(text, &error).contains('^'));
        }
    }
}

#[test]
fn random_text_never_panics() {
    let mut rng = Rng(0x5EED_0002);
    println!("seed {:#x}", rng.0);
    let schema = schema();
    for _ in 0..10_000 {
        let len = rng.below(40);
        let bytes: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
        parse_all_ways(&String::from_utf8_lossy(&bytes), &schema);
    }
}

#[test]
fn random_tokens_never_panic() {
    let mut tokens = KEYWORDS.to_vec();
    tokens.extend(["region", "price", "date", "new", "mark", "tags", "\"limit\"", "nope", "-"]);
    tokens.extend(["=", "<>", "<", ">=", "(", ")", "(", ")", ",", "*", "1", "-5", "1.5", "inf"]);
    tokens.extend(["'a'", "'1970-01-01'", "x'00'", "timestamp", "'", "\"", "~", "n~pa~d1", "\n"]);
    let mut rng = Rng(0x5EED_0003);
    println!("seed {:#x}", rng.0);
    let schema = schema();
    let mut valid = 0;
    for _ in 0..10_000 {
        let len = 1 + rng.below(12);
        let space = *rng.pick(&["", " "]);
        let text: Vec<&str> = (0..len).map(|_| *rng.pick(&tokens)).collect();
        let text = text.join(space);
        parse_all_ways(&text, &schema);
        valid += u32::from(parse_query(&text, None).is_ok());
    }
    assert!(valid > 100, "only {valid} of the texts are valid queries");
}

/// Removes, doubles or replaces one character of a valid query.
#[test]
fn damaged_queries_never_panic() {
    let mut rng = Rng(0x5EED_0004);
    println!("seed {:#x}", rng.0);
    let schema = schema();
    for _ in 0..5_000 {
        let mut text: Vec<char> = filter(&mut rng, 2).to_string().chars().collect();
        let at = rng.below(text.len());
        match rng.below(3) {
            0 => drop(text.remove(at)),
            1 => text.insert(at, text[at]),
            _ => text[at] = *rng.pick(&['\'', '"', '(', ')', '-', '\u{e9}', '0', ' ']),
        }
        parse_all_ways(&text.into_iter().collect::<String>(), &schema);
    }
}
