//! Filters and queries as Java packs them: see `Filter` and `Query` there.
//!
//! An argument of a native method is a byte, [`TEXT`] before a text, [`TREE`] or [`DEEP_TREE`]
//! before a packed filter or query. A text is parsed with the schema of the reader, so that names
//! and values are checked at their places.

use crate::convert::{Pack, Unpack};
use crate::error::Result;
use crate::search::value;
use firndb::Error;
use firndb::search::query::{asc, desc};
use firndb::search::{
    Filter, MAX_DEPTH, Op, PageToken, Query, Schema, Value, parse_filter, parse_query, point_at,
};

const TEXT: u8 = 0;
const TREE: u8 = 1;
/// A filter of more than [`SHALLOW`] levels.
const DEEP_TREE: u8 = 2;

/// Levels for which every stack has room.
const SHALLOW: usize = 16;

/// Most levels of a filter: each parenthesis of a text may nest an `or` and an `and`.
const MAX_LEVELS: usize = 2 * MAX_DEPTH + 1;

/// Flags of a packed query.
const HAS_LIMIT: u8 = 1;
const HAS_TOKEN: u8 = 2;
const COUNTS: u8 = 4;

/// The error of a text with its place in it.
fn in_text(text: &str, error: &Error) -> Error {
    Error::new(error.kind(), point_at(text, error))
}

fn wrong_tag(tag: u8) -> Error {
    Error::invalid(format!("a packed query has tag {tag}"))
}

/// Whether the filter of an argument may have more levels than every stack has room for.
pub fn is_deep(argument: &[u8]) -> bool {
    match argument.first() {
        Some(&TEXT) => {
            let opened = argument.iter().filter(|byte| **byte == b'(').count();
            let words = argument.windows(3);
            let negated = words.filter(|word| word.eq_ignore_ascii_case(b"not")).count();
            opened + negated > SHALLOW
        }
        tag => tag == Some(&DEEP_TREE),
    }
}

/// The query of an argument.
pub fn query(argument: &[u8], schema: Option<&Schema>) -> Result<Query> {
    let mut from = Unpack(argument);
    match from.byte()? {
        TEXT => {
            let text = from.text()?;
            Ok(parse_query(text, schema).map_err(|error| in_text(text, &error))?)
        }
        TREE | DEEP_TREE => unpack_query(&mut from),
        tag => Err(wrong_tag(tag).into()),
    }
}

/// The filter of an argument.
pub fn filter(argument: &[u8], schema: Option<&Schema>) -> Result<Filter> {
    let mut from = Unpack(argument);
    match from.byte()? {
        TEXT => {
            let text = from.text()?;
            Ok(parse_filter(text, schema).map_err(|error| in_text(text, &error))?)
        }
        TREE | DEEP_TREE => unpack_filter(&mut from, 1),
        tag => Err(wrong_tag(tag).into()),
    }
}

/// The text form of a query.
pub fn query_text(argument: &[u8]) -> Result<String> {
    let mut from = Unpack(argument);
    from.byte()?;
    let (query, token) = unpack_page(&mut from)?;
    let after = token.map_or(String::new(), |token| format!(" after {token}"));
    Ok(query.to_string() + &after)
}

fn unpack_query(from: &mut Unpack<'_>) -> Result<Query> {
    let (query, token) = unpack_page(from)?;
    Ok(match token {
        Some(token) => query.after(PageToken::parse(token)?),
        None => query,
    })
}

/// A query, and the text of its page token.
fn unpack_page<'a>(from: &mut Unpack<'a>) -> Result<(Query, Option<&'a str>)> {
    let flags = from.byte()?;
    let (skip, limit) = (from.long()?.cast_unsigned(), from.long()?.cast_unsigned());
    let token = from.text()?;
    let mut order = Vec::new();
    for _ in 0..from.int()? {
        let field = from.text()?;
        order.push(if from.byte()? == 0 { asc(field) } else { desc(field) });
    }
    let mut query = Query::new(unpack_filter(from, 1)?).skip(skip);
    query.order = order;
    query.limit = (flags & HAS_LIMIT != 0).then_some(limit);
    query.count = flags & COUNTS != 0;
    Ok((query, (flags & HAS_TOKEN != 0).then_some(token)))
}

/// Packs a query for Java, after the number of levels of its filter.
pub fn pack_query(packed: &mut Pack, query: &Query) {
    packed.int(levels(&query.filter));
    let limit = query.limit.map_or(0, |_| HAS_LIMIT);
    packed.byte(limit | query.after.as_ref().map_or(0, |_| HAS_TOKEN));
    packed.long(crate::convert::long(query.skip));
    packed.long(crate::convert::long(query.limit.unwrap_or(0)));
    packed.text(&query.after.as_ref().map_or(String::new(), ToString::to_string));
    packed.int(query.order.len() as u32);
    for key in &query.order {
        packed.text(&key.field);
        packed.byte(u8::from(key.descending));
    }
    pack_filter(packed, &query.filter);
}

/// Packs a filter for Java, after the number of its levels.
pub fn pack_with_levels(packed: &mut Pack, filter: &Filter) {
    packed.int(levels(filter));
    pack_filter(packed, filter);
}

/// The number of levels of a filter that was parsed, and so has a limited number.
fn levels(filter: &Filter) -> u32 {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => 1 + parts.iter().map(levels).max().unwrap_or(0),
        Filter::Not(part) => 1 + levels(part),
        _ => 1,
    }
}

const ALL: u8 = 0;
const COMPARE: u8 = 1;
const IN: u8 = 2;
const BETWEEN: u8 = 3;
const PREFIX: u8 = 4;
const EXISTS: u8 = 5;
const AND: u8 = 6;
const OR: u8 = 7;
const NOT: u8 = 8;

/// Comparisons in the order of their numbers.
const OPERATORS: [Op; 5] = [Op::Eq, Op::Lt, Op::Lte, Op::Gt, Op::Gte];

/// Reads a filter at a level, which is limited because it is done by recursion.
fn unpack_filter(from: &mut Unpack<'_>, level: usize) -> Result<Filter> {
    if level > MAX_LEVELS {
        return Err(Error::invalid(format!("a filter has more than {MAX_LEVELS} levels")).into());
    }
    let tag = from.byte()?;
    if (COMPARE..=EXISTS).contains(&tag) {
        return unpack_test(from, tag);
    }
    Ok(match tag {
        ALL => Filter::All,
        AND => Filter::And(unpack_filters(from, level)?),
        OR => Filter::Or(unpack_filters(from, level)?),
        NOT => Filter::Not(Box::new(unpack_filter(from, level + 1)?)),
        tag => return Err(Error::invalid(format!("a packed filter has tag {tag}")).into()),
    })
}

fn unpack_filters(from: &mut Unpack<'_>, level: usize) -> Result<Vec<Filter>> {
    let count = from.int()?;
    (0..count).map(|_| unpack_filter(from, level + 1)).collect()
}

/// A condition on one field.
fn unpack_test(from: &mut Unpack<'_>, tag: u8) -> Result<Filter> {
    let field = from.text()?.to_string();
    Ok(match tag {
        COMPARE => {
            let number = usize::from(from.byte()?);
            let operator = OPERATORS.get(number).copied();
            let operator = operator.ok_or_else(|| Error::invalid("there is no such operator"))?;
            Filter::Compare(field, operator, unpack_value(from)?)
        }
        IN => {
            let count = from.int()?;
            let values = (0..count).map(|_| unpack_value(from)).collect::<Result<_>>()?;
            Filter::In(field, values)
        }
        BETWEEN => Filter::Between(field, unpack_value(from)?, unpack_value(from)?),
        PREFIX => Filter::Prefix(field, unpack_value(from)?),
        _ => Filter::Exists(field),
    })
}

fn unpack_value(from: &mut Unpack<'_>) -> Result<Value> {
    let value = value::unpack(from)?;
    Ok(value.ok_or_else(|| Error::invalid("a condition lacks its value"))?)
}

fn pack_filter(packed: &mut Pack, filter: &Filter) {
    let mut start = |tag: u8, field: &str| {
        packed.byte(tag);
        packed.text(field);
    };
    match filter {
        Filter::Compare(field, operator, value) => {
            start(COMPARE, field);
            let number = OPERATORS.iter().position(|known| known == operator);
            packed.byte(number.unwrap_or(0) as u8);
            value::pack(packed, Some(value));
        }
        Filter::In(field, values) => {
            start(IN, field);
            packed.int(values.len() as u32);
            values.iter().for_each(|value| value::pack(packed, Some(value)));
        }
        Filter::Between(field, low, high) => {
            start(BETWEEN, field);
            value::pack(packed, Some(low));
            value::pack(packed, Some(high));
        }
        Filter::Prefix(field, value) => {
            start(PREFIX, field);
            value::pack(packed, Some(value));
        }
        Filter::Exists(field) => start(EXISTS, field),
        Filter::And(parts) => pack_filters(packed, AND, parts),
        Filter::Or(parts) => pack_filters(packed, OR, parts),
        Filter::Not(part) => {
            packed.byte(NOT);
            pack_filter(packed, part);
        }
        _ => packed.byte(ALL),
    }
}

fn pack_filters(packed: &mut Pack, tag: u8, parts: &[Filter]) {
    packed.byte(tag);
    packed.int(parts.len() as u32);
    parts.iter().for_each(|part| pack_filter(packed, part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use firndb::search::query::{and, between, eq, exists, gte, is_in, not, or, prefix};

    fn packed_text(text: &str) -> Vec<u8> {
        let mut packed = Pack(vec![TEXT]);
        packed.text(text);
        packed.0
    }

    /// The packed form of Java without the number of levels.
    fn tree(pack: impl FnOnce(&mut Pack)) -> Vec<u8> {
        let mut packed = Pack::default();
        pack(&mut packed);
        [&[TREE], &packed.0[4..]].concat()
    }

    #[test]
    fn queries_are_unpacked_as_they_were() {
        let filter = or([
            and([eq("a", -1), gte("b", "caf\u{e9}"), not(exists("c"))]),
            is_in("d", [1.5, f64::INFINITY]),
            between("e", true, false),
            prefix("f", &[0, 255][..]),
            not(Filter::All),
        ]);
        let mut given = Query::new(filter.clone()).order_by(asc("a")).order_by(desc("b"));
        given = given.skip(3).limit(7).after(PageToken::parse("i-5~n~ppart~d17").ok().unwrap());
        let packed = tree(|packed| pack_query(packed, &given));
        assert_eq!(query(&packed, None).ok(), Some(given.clone()));
        assert_eq!(query_text(&packed).ok(), Some(given.to_string()));
        let packed = tree(|packed| pack_with_levels(packed, &filter));
        assert_eq!(super::filter(&packed, None).ok(), Some(filter));
    }

    #[test]
    fn texts_are_parsed() {
        let found = query(&packed_text("a = 1 order by -b limit 2"), None).ok();
        assert_eq!(found, Some(Query::new(eq("a", 1)).order_by(desc("b")).limit(2)));
        assert_eq!(filter(&packed_text(""), None).ok(), Some(Filter::All));
    }

    #[test]
    fn damaged_arguments_are_refused() {
        let all = tree(|packed| pack_query(packed, &Query::new(eq("a", 1))));
        for length in 0..all.len() {
            assert!(query(&all[..length], None).is_err(), "{length}");
        }
        for tag in [3, 9, 255] {
            assert!(filter(&[tag, 0], None).is_err());
            assert!(filter(&[TREE, tag.max(9)], None).is_err());
        }
    }

    #[test]
    fn deep_arguments_are_known() {
        assert!(!is_deep(&packed_text(&"(a or ".repeat(SHALLOW))));
        assert!(is_deep(&packed_text(&"(a or not ".repeat(SHALLOW / 2 + 1))));
        assert!(is_deep(&packed_text(&"NoT ".repeat(SHALLOW + 1))));
        assert_eq!([TREE, DEEP_TREE].map(|tag| is_deep(&[tag, ALL])), [false, true]);
    }

    #[test]
    fn levels_are_limited() {
        let nested = |levels: usize| [vec![TREE], vec![NOT; levels - 1], vec![ALL]].concat();
        let deepest = filter(&nested(MAX_LEVELS), None).ok().unwrap();
        assert_eq!(levels(&deepest), MAX_LEVELS as u32);
        for levels in [MAX_LEVELS + 1, 10_000_000] {
            assert!(filter(&nested(levels), None).is_err());
        }
    }
}
