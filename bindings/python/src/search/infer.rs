//! The schema of rows of Python, from the types of their values.

use firndb::search::{Field, Roles, Schema, Type, Value};
use firndb::{Error, Result};
use std::collections::HashMap;

/// Fields with longer texts are stored only: such texts are read, not filtered or sorted by.
const LONG_TEXT: usize = 256;

/// Integers up to this are exact in an `f64`.
const EXACT: u64 = 1 << 53;

/// The evidence about all fields.
#[derive(Default)]
pub struct Inference {
    rows: u64,
    /// In the order of their first appearance.
    names: Vec<String>,
    guesses: HashMap<String, Guess>,
}

/// The evidence about one field.
#[derive(Default)]
struct Guess {
    /// The types of the values, without repetitions.
    types: Vec<Type>,
    multi: bool,
    /// Rows with a value.
    rows: u64,
    last_row: u64,
    longest: usize,
    has_negative: bool,
    /// Whether an integer is not exact in an `f64`.
    has_large: bool,
}

impl Inference {
    pub fn start_row(&mut self) {
        self.rows += 1;
    }

    /// A row has a field, with a list of values or one.
    pub fn see(&mut self, name: &str, is_list: bool) {
        if !self.guesses.contains_key(name) {
            self.names.push(name.to_string());
            self.guesses.insert(name.to_string(), Guess::default());
        }
        if let Some(guess) = self.guesses.get_mut(name) {
            guess.multi |= is_list;
        }
    }

    /// A row has a value of a field.
    pub fn observe(&mut self, name: &str, value: &Value) {
        let row = self.rows;
        let Some(guess) = self.guesses.get_mut(name) else { return };
        if guess.last_row != row {
            guess.last_row = row;
            guess.rows += 1;
        }
        if !guess.types.contains(&value.ty()) {
            guess.types.push(value.ty());
        }
        match value {
            Value::Str(text) => guess.longest = guess.longest.max(text.len()),
            Value::Bytes(bytes) => guess.longest = guess.longest.max(bytes.len()),
            Value::I64(number) => {
                guess.has_negative |= *number < 0;
                guess.has_large |= number.unsigned_abs() > EXACT;
            }
            Value::U64(_) => guess.has_large = true,
            _ => {}
        }
    }

    /// The schema. `complete` if these were all rows: otherwise every field is nullable.
    pub fn schema(&self, complete: bool) -> Result<Schema> {
        if self.names.is_empty() {
            return Err(Error::invalid("there are no rows to infer a schema from: give one"));
        }
        let fields = self.names.iter().map(|name| {
            let guess = &self.guesses[name];
            let ty = guess.ty().ok_or_else(|| {
                let types: Vec<&str> = guess.types.iter().map(|ty| ty.name()).collect();
                Error::invalid(format!(
                    "field `{name}` has values of the types {}: give a schema",
                    types.join(" and ")
                ))
            })?;
            let is_long = guess.longest > LONG_TEXT;
            let mut field = Field::new(
                name,
                ty,
                match (is_long, guess.multi) {
                    (true, _) => Roles::STORED,
                    (false, true) => Roles::FILTERABLE.with(Roles::STORED),
                    (false, false) => Roles::FULL,
                },
            );
            field.multi = guess.multi;
            field.nullable = guess.multi || !complete || guess.rows < self.rows;
            Ok(field)
        });
        Schema::new(fields.collect::<Result<Vec<Field>>>()?)
    }
}

impl Guess {
    /// The type that holds all values exactly.
    fn ty(&self) -> Option<Type> {
        let has = |ty| self.types.contains(&ty);
        let integers = self.types.iter().all(|ty| matches!(ty, Type::I64 | Type::U64));
        match self.types.as_slice() {
            [] => Some(Type::String),
            [ty] => Some(*ty),
            _ if integers => (!self.has_negative).then_some(Type::U64),
            [_, _] if has(Type::F64) && has(Type::I64) => (!self.has_large).then_some(Type::F64),
            _ => None,
        }
    }
}
