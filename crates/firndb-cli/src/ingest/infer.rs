//! Guesses a schema from rows: the narrowest type that holds every value of a column.
//!
//! Types are tried in the order bool, i64, u64, f64, timestamp, and what is none of them is a
//! string. In CSV, text such as `007` is a string (a number would lose its zeros), and words for
//! "no value" such as `NA` do not turn a column of numbers into strings.

use super::typed::{is_missing_word, is_rounded, parse_text};
use super::{Raw, Row};
use firndb::Result;
use firndb::search::{Field, Roles, Schema, Type};
use std::collections::HashMap;
use std::rc::Rc;

/// From the narrowest to the widest; a string holds everything.
const NARROW: [Type; 5] = [Type::Bool, Type::I64, Type::U64, Type::F64, Type::Timestamp];

/// Longer strings are texts to be read, not values to filter or sort by.
const LONG_TEXT: usize = 256;

/// What the rows say about one column.
struct Guess {
    /// Bit `i`: `NARROW[i]` holds every value so far.
    fits: u8,
    values: u64,
    /// Values that say something about the type.
    telling: u64,
    /// Values that are words for "no value" unless the column is a string.
    words: u64,
    multi: bool,
    longest: usize,
}

/// The schema of `rows`. Columns that lacked a value somewhere are nullable, and all are if these
/// are not all rows (`complete` is false).
pub fn infer<'a>(
    rows: impl Iterator<Item = &'a Row>,
    nulls: &[String],
    complete: bool,
) -> Result<Schema> {
    let mut order: Vec<Rc<str>> = Vec::new();
    let mut guesses: HashMap<Rc<str>, Guess> = HashMap::new();
    let mut count = 0;
    for row in rows {
        count += 1;
        for (column, raw) in &row.cells {
            let guess = guesses.entry(column.clone()).or_insert_with(|| {
                order.push(column.clone());
                Guess {
                    fits: (1 << NARROW.len()) - 1,
                    values: 0,
                    telling: 0,
                    words: 0,
                    multi: false,
                    longest: 0,
                }
            });
            guess.see(raw, nulls);
        }
    }
    Schema::new(order.iter().map(|name| guesses[name].field(name, count, complete)))
}

impl Guess {
    fn see(&mut self, raw: &Raw, nulls: &[String]) {
        match raw {
            Raw::Missing => return,
            Raw::Text(text) if text.is_empty() || nulls.contains(text) => return,
            Raw::List(items) => {
                self.multi = true;
                self.values += 1;
                return items.iter().for_each(|item| self.narrow(item));
            }
            Raw::Text(text) if is_missing_word(text) => self.words += 1,
            raw => self.narrow(raw),
        }
        self.values += 1;
    }

    /// Strikes out the types that do not hold `raw`.
    fn narrow(&mut self, raw: &Raw) {
        self.telling += 1;
        if let Raw::Text(text) | Raw::Str(text) = raw {
            self.longest = self.longest.max(text.len());
        }
        for (i, ty) in NARROW.into_iter().enumerate() {
            if self.fits & 1 << i != 0 && !holds(ty, raw) {
                self.fits &= !(1 << i);
            }
        }
    }

    fn field(&self, name: &str, rows: u64, complete: bool) -> Field {
        let narrow = NARROW.into_iter().enumerate().find(|(i, _)| self.fits & 1 << i != 0);
        let ty = narrow.filter(|_| self.telling > 0).map_or(Type::String, |(_, ty)| ty);
        let roles = match (self.longest > LONG_TEXT && ty == Type::String, self.multi) {
            (true, _) => Roles::STORED,
            (false, true) => Roles::FILTERABLE.with(Roles::STORED),
            (false, false) => Roles::FULL,
        };
        let values = if ty == Type::String { self.values } else { self.values - self.words };
        let mut field = Field::new(name, ty, roles);
        field.multi = self.multi;
        field.nullable = self.multi || !complete || values < rows;
        field
    }
}

/// Whether a column of type `ty` can hold `raw` without losing anything of it.
pub fn holds(ty: Type, raw: &Raw) -> bool {
    match (ty, raw) {
        (Type::Bool, Raw::Bool(_)) => true,
        (Type::I64, Raw::Int(_)) => true,
        (Type::U64, Raw::Int(v)) => *v >= 0,
        (Type::U64, Raw::Uint(_)) => true,
        (Type::F64, Raw::Float(_) | Raw::MinusZero) => true,
        (Type::F64, Raw::Int(v)) => v.unsigned_abs() <= 1 << 53,
        (Type::Timestamp, Raw::Text(text) | Raw::Str(text)) => parse_text(ty, text).is_some(),
        (Type::I64 | Type::U64 | Type::F64, Raw::Text(text)) => {
            is_as_written(ty, text) && parse_text(ty, text).is_some()
        }
        (Type::Bool, Raw::Text(text)) => parse_text(ty, text).is_some(),
        _ => false,
    }
}

/// Whether a number of type `ty` keeps all that `text` has: zeros before it, a plus or blanks are
/// lost, and so are the sign of an integer zero and digits of a large integer in an f64.
pub fn is_as_written(ty: Type, text: &str) -> bool {
    let digits = text.trim_start_matches('-').as_bytes();
    let zeros = digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit();
    let number = digits.first().is_some_and(u8::is_ascii_digit) && !text.ends_with([' ', '\t']);
    let lost = if ty == Type::F64 { is_rounded(text) } else { text == "-0" };
    number && !zeros && !lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::Place;

    fn field_of(values: Vec<Raw>, complete: bool) -> Field {
        let place = Place { file: "a".into(), line: 1 };
        let row = |raw| Row { place: place.clone(), cells: vec![("x".into(), raw)], json: None };
        let rows: Vec<Row> = values.into_iter().map(row).collect();
        infer(rows.iter(), &["-".to_string()], complete).unwrap().fields()[0].clone()
    }

    fn of_text(cells: &[&str]) -> (Type, bool) {
        let field = field_of(cells.iter().map(|c| Raw::Text(c.to_string())).collect(), true);
        (field.ty, field.nullable)
    }

    #[test]
    fn the_narrowest_type_that_holds_every_value_wins() {
        assert_eq!(of_text(&["true", "FALSE"]), (Type::Bool, false));
        assert_eq!(of_text(&["1", "-2"]), (Type::I64, false));
        assert_eq!(of_text(&["1", "18446744073709551615"]), (Type::U64, false));
        assert_eq!(of_text(&["1", "-2.5", "1e3"]), (Type::F64, false));
        assert_eq!(of_text(&["2013-01-01T10:00:00Z", "2013-01-02"]), (Type::Timestamp, false));
        assert_eq!(of_text(&["1", "x"]), (Type::String, false));
        assert_eq!(of_text(&["true", "1"]), (Type::String, false));
        assert_eq!(of_text(&["007", "12"]), (Type::String, false));
        assert_eq!(
            of_text(&["9007199254740993", "0.5"]),
            (Type::String, false),
            "would be rounded"
        );
        assert_eq!(of_text(&["9007199254740992", "0.5"]), (Type::F64, false));
        assert_eq!(of_text(&["18446744073709551616"]), (Type::String, false));
        assert_eq!(of_text(&["1e400", "0.5"]), (Type::String, false));
        assert_eq!(of_text(&["1e-400", "0.5"]), (Type::String, false), "would be zero");
        assert_eq!(of_text(&["1", "-0"]), (Type::F64, false), "would lose its sign");
        assert_eq!(of_text(&["1", "9 "]), (Type::String, false));
    }

    #[test]
    fn missing_values_make_a_column_nullable() {
        assert_eq!(of_text(&["1", "NA", ""]), (Type::I64, true));
        assert_eq!(of_text(&["N1", "NA"]), (Type::String, false));
        assert_eq!(of_text(&["N1", "-"]), (Type::String, true));
        assert_eq!(of_text(&["NA"]), (Type::String, false));
        assert!(field_of(vec![Raw::Int(1)], false).nullable);
    }

    #[test]
    fn json_values_keep_their_types() {
        assert_eq!(field_of(vec![Raw::Str("12".into())], true).ty, Type::String);
        assert_eq!(field_of(vec![Raw::Int(1), Raw::Float(0.5)], true).ty, Type::F64);
        assert_eq!(field_of(vec![Raw::Int(i64::MAX), Raw::Float(0.5)], true).ty, Type::String);
        assert_eq!(field_of(vec![Raw::Large("1e400".into())], true).ty, Type::String);
        assert_eq!(field_of(vec![Raw::Int(1), Raw::MinusZero], true).ty, Type::F64);
        let list = field_of(vec![Raw::List(vec![Raw::Int(1)]), Raw::Missing], true);
        assert!(list.multi && list.nullable && !list.roles.sortable && list.ty == Type::I64);
        assert_eq!(field_of(vec![Raw::List(vec![])], true).ty, Type::String);
        let text = field_of(vec![Raw::Str("x".repeat(300))], true);
        assert_eq!(text.roles, Roles::STORED);
    }
}
