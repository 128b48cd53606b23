//! Infers a schema from rows: the narrowest type that holds every value of a column.
//!
//! Types are tried in the order bool, i64, u64, f64, timestamp; anything else is a string. In CSV,
//! text such as `007` is a string (a number would lose its zeros), and words for "no value" such as
//! `NA` do not turn a column of numbers into strings.

use crate::row::{RawValue, Row};
use crate::value::{is_missing_word, is_rounded, parse};
use firndb::Result;
use firndb::search::{Field, Roles, Schema, Type};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// From the narrowest to the widest. A string holds everything.
const NARROW: [Type; 5] = [Type::Bool, Type::I64, Type::U64, Type::F64, Type::Timestamp];

/// Fields with longer strings are stored only: such texts are read, not filtered or sorted by.
const LONG_TEXT: usize = 256;

/// The evidence about one column.
struct Guess {
    /// Bit `i`: `NARROW[i]` holds every value so far.
    fits: u8,
    values: u64,
    /// Values that constrain the type.
    typed: u64,
    /// Values that are words for "no value" unless the column is a string.
    words: u64,
    multi: bool,
    /// Values are the bytes of a binary column.
    binary: bool,
    /// A value is a nested array, which no field can hold.
    nested: bool,
    longest: usize,
}

/// Infers the schema of `rows`. Columns without a value in some row are nullable; all columns are,
/// unless these are all rows (`complete`). `null_texts` are texts that stand for "no value".
/// Columns with nothing but nested arrays are left out.
///
/// # Errors
///
/// `InvalidArgument` if the columns cannot be fields of a schema.
pub fn infer<'a>(
    rows: impl Iterator<Item = &'a Row>,
    null_texts: &[String],
    complete: bool,
) -> Result<Schema> {
    let mut inference = Inference::new(null_texts);
    rows.for_each(|row| inference.add(row));
    inference.finish(complete)
}

/// Infers a schema from rows that are not kept. Memory depends on the number of columns only.
///
/// ```
/// use firndb_ingest::{Inference, RowOptions, Rows};
///
/// let csv = &b"id,price\n7,1.5\n8,\n"[..];
/// let mut inference = Inference::new(&[]);
/// for row in Rows::from_reader("prices.csv", csv, RowOptions::default()) {
///     inference.add(&row?.unwrap());
/// }
/// let schema = inference.finish(true)?;
/// assert!(!schema.field("id").unwrap().1.nullable && schema.field("price").unwrap().1.nullable);
/// # Ok::<(), firndb::Error>(())
/// ```
pub struct Inference {
    order: Vec<Arc<str>>,
    guesses: HashMap<Arc<str>, Guess>,
    rows: u64,
    null_texts: Vec<String>,
}

impl Inference {
    /// No rows so far. `null_texts` are texts that stand for "no value".
    pub fn new(null_texts: &[String]) -> Inference {
        let null_texts = null_texts.to_vec();
        Inference { order: Vec::new(), guesses: HashMap::new(), rows: 0, null_texts }
    }

    /// Takes the types and missing values of a row into account.
    pub fn add(&mut self, row: &Row) {
        self.rows += 1;
        for (column, raw) in &row.cells {
            let guess = self.guesses.entry(column.clone()).or_insert_with(|| {
                self.order.push(column.clone());
                Guess {
                    fits: (1 << NARROW.len()) - 1,
                    values: 0,
                    typed: 0,
                    words: 0,
                    multi: false,
                    binary: false,
                    nested: false,
                    longest: 0,
                }
            });
            guess.observe(raw, &self.null_texts);
        }
    }

    /// The schema of the rows. Columns without a value in some row are nullable; all columns are,
    /// unless these were all rows (`complete`). Columns with nothing but nested
    /// arrays are left out.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the columns cannot be fields of a schema.
    pub fn finish(&self, complete: bool) -> Result<Schema> {
        let is_field = |name: &&Arc<str>| {
            let guess = &self.guesses[*name];
            // A nested array among other values is a bad row.
            !guess.nested || guess.typed > 0
        };
        let fields = self.order.iter().filter(is_field);
        Schema::new(fields.map(|name| self.guesses[name].field(name, self.rows, complete)))
    }
}

impl fmt::Debug for Inference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inference").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Guess {
    fn observe(&mut self, raw: &RawValue, nulls: &[String]) {
        match raw {
            RawValue::Missing => return,
            RawValue::Text(text) if nulls.contains(text) => return,
            RawValue::Nested(_) => return self.nested = true,
            RawValue::List(items) => {
                self.multi = true;
                self.values += 1;
                return items.iter().for_each(|item| self.narrow(item));
            }
            RawValue::Text(text) if text.is_empty() || is_missing_word(text) => self.words += 1,
            raw => self.narrow(raw),
        }
        self.values += 1;
    }

    /// Excludes the types that do not hold `raw`.
    fn narrow(&mut self, raw: &RawValue) {
        self.typed += 1;
        if let RawValue::Text(text) | RawValue::Str(text) = raw {
            self.longest = self.longest.max(text.len());
        }
        if let RawValue::Bytes(bytes) = raw {
            self.longest = self.longest.max(bytes.len());
            self.binary = true;
        }
        for (i, ty) in NARROW.into_iter().enumerate() {
            if self.fits & 1 << i != 0 && !holds(ty, raw) {
                self.fits &= !(1 << i);
            }
        }
    }

    fn field(&self, name: &str, rows: u64, complete: bool) -> Field {
        let narrow = NARROW.into_iter().enumerate().find(|(i, _)| self.fits & 1 << i != 0);
        let widest = if self.binary { Type::Bytes } else { Type::String };
        let ty = narrow.filter(|_| self.typed > 0).map_or(widest, |(_, ty)| ty);
        let roles = match (self.longest > LONG_TEXT && ty == widest, self.multi) {
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

/// Whether a column of type `ty` holds `raw` without loss.
pub(crate) fn holds(ty: Type, raw: &RawValue) -> bool {
    match (ty, raw) {
        (Type::Bool, RawValue::Bool(_)) => true,
        (Type::I64, RawValue::Int(_)) => true,
        (Type::U64, RawValue::Int(v)) => *v >= 0,
        (Type::U64, RawValue::Uint(_)) => true,
        (Type::F64, RawValue::Float(_) | RawValue::NegativeZero) => true,
        (Type::F64, RawValue::Int(v)) => v.unsigned_abs() <= 1 << 53,
        (Type::Timestamp, RawValue::Text(text) | RawValue::Str(text)) => parse(ty, text).is_some(),
        (Type::I64 | Type::U64 | Type::F64, RawValue::Text(text)) => {
            is_as_written(ty, text) && parse(ty, text).is_some()
        }
        (Type::Bool, RawValue::Text(text)) => parse(ty, text).is_some(),
        _ => false,
    }
}

/// Whether a number of type `ty` keeps everything that `text` has. Leading zeros, a plus sign and
/// white space would be lost, and so would the sign of an integer zero and digits of a large
/// integer in an f64.
pub(crate) fn is_as_written(ty: Type, text: &str) -> bool {
    let digits = text.trim_start_matches('-').as_bytes();
    let zeros = digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit();
    let number = digits.first().is_some_and(u8::is_ascii_digit) && !text.ends_with([' ', '\t']);
    let lost = if ty == Type::F64 { is_rounded(text) } else { text == "-0" };
    number && !zeros && !lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Position;

    fn field_of(values: Vec<RawValue>, complete: bool) -> Field {
        let position = Position { file: "a".into(), line: 1 };
        let row =
            |raw| Row { position: position.clone(), cells: vec![("x".into(), raw)], json: None };
        let rows: Vec<Row> = values.into_iter().map(row).collect();
        infer(rows.iter(), &["-".to_string()], complete).unwrap().fields()[0].clone()
    }

    fn of_text(cells: &[&str]) -> (Type, bool) {
        let field = field_of(cells.iter().map(|c| RawValue::Text(c.to_string())).collect(), true);
        (field.ty, field.nullable)
    }

    #[test]
    fn the_narrowest_type_that_holds_every_value_is_inferred() {
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
        assert_eq!(of_text(&["x", ""]), (Type::String, false), "the empty text is a text");
        assert_eq!(of_text(&["N1", "NA"]), (Type::String, false));
        assert_eq!(of_text(&["N1", "-"]), (Type::String, true));
        assert_eq!(of_text(&["NA"]), (Type::String, false));
        assert!(field_of(vec![RawValue::Int(1)], false).nullable);
    }

    #[test]
    fn json_values_keep_their_types() {
        assert_eq!(field_of(vec![RawValue::Str("12".into())], true).ty, Type::String);
        assert_eq!(field_of(vec![RawValue::Int(1), RawValue::Float(0.5)], true).ty, Type::F64);
        assert_eq!(
            field_of(vec![RawValue::Int(i64::MAX), RawValue::Float(0.5)], true).ty,
            Type::String
        );
        assert_eq!(field_of(vec![RawValue::Large("1e400".into())], true).ty, Type::String);
        assert_eq!(field_of(vec![RawValue::Int(1), RawValue::NegativeZero], true).ty, Type::F64);
        let list = field_of(vec![RawValue::List(vec![RawValue::Int(1)]), RawValue::Missing], true);
        assert!(list.multi && list.nullable && !list.roles.sortable && list.ty == Type::I64);
        assert_eq!(field_of(vec![RawValue::List(vec![])], true).ty, Type::String);
        let text = field_of(vec![RawValue::Str("x".repeat(300))], true);
        assert_eq!(text.roles, Roles::STORED);
    }
}
