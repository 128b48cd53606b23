//! Reads conditions, by recursion whose depth is checked before each level.

use super::shorten;
use crate::value::from_hex;
use firndb::search::{Field, Filter, MAX_DEPTH, MAX_IN, Op, Schema, Type, Value};
use firndb::{Error, Result};
use firndb_arrow::json_number::JsonNumber;
use serde_json::{Map, Number, Value as Json};
use std::fmt::Write;

/// Comparisons with one value, and whether they are not negated.
const OPERATORS: [(&str, Op, bool); 6] = [
    ("eq", Op::Eq, true),
    ("ne", Op::Eq, false),
    ("lt", Op::Lt, true),
    ("lte", Op::Lte, true),
    ("gt", Op::Gt, true),
    ("gte", Op::Gte, true),
];

const LOGIC: &str = "a condition is an object with `and`, `or` or `not`, or with `field` and a \
                     comparison";
const COMPARISONS: &str = "eq, ne, lt, lte, gt, gte, in, between, prefix and exists";

/// Reads conditions on the fields of a schema.
pub(super) struct Conditions<'a> {
    schema: &'a Schema,
    /// The keys and positions from the outermost object to the current one.
    path: Vec<Step<'a>>,
    /// Levels of `and`, `or` and `not` around the current object.
    depth: usize,
}

enum Step<'a> {
    Key(&'a str),
    Item(usize),
}

impl<'a> Conditions<'a> {
    pub(super) fn new(schema: &'a Schema) -> Conditions<'a> {
        Conditions { schema, path: vec![Step::Key("where")], depth: 0 }
    }

    /// The condition of a JSON object.
    pub(super) fn read(&mut self, json: &'a Json) -> Result<Filter> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("the condition is nested more than {MAX_DEPTH} deep")));
        }
        let Json::Object(object) = json else { return Err(self.error(LOGIC)) };
        if object.contains_key("field") {
            return self.comparisons(object);
        }
        let mut entries = object.iter();
        let (Some((key, json)), None) = (entries.next(), entries.next()) else {
            return Err(self.error(LOGIC));
        };
        self.path.push(Step::Key(key));
        self.depth += 1;
        let filter = match key.as_str() {
            "and" => Filter::And(self.list(json)?),
            "or" => Filter::Or(self.list(json)?),
            "not" => Filter::Not(Box::new(self.read(json)?)),
            _ => {
                self.path.pop();
                return Err(self.error(format!("`{}` is unknown: {LOGIC}", shorten(key))));
            }
        };
        self.depth -= 1;
        self.path.pop();
        Ok(filter)
    }

    fn list(&mut self, json: &'a Json) -> Result<Vec<Filter>> {
        let Json::Array(items) = json else {
            return Err(self.error("this is an array of conditions"));
        };
        let mut filters = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            self.path.push(Step::Item(i));
            filters.push(self.read(item)?);
            self.path.pop();
        }
        Ok(filters)
    }

    /// The comparisons of a field.
    fn comparisons(&mut self, object: &'a Map<String, Json>) -> Result<Filter> {
        let Some(Json::String(name)) = object.get("field") else {
            return Err(self.error("`field` is the name of a field"));
        };
        let field = self.schema.filterable(name).map_err(|e| self.error(e.message()))?;
        let mut filters = Vec::with_capacity(object.len() - 1);
        for (key, json) in object.iter().filter(|(key, _)| *key != "field") {
            self.path.push(Step::Key(key));
            filters.push(self.comparison(name, field, key, json)?);
            self.path.pop();
        }
        match filters.len() {
            0 => Err(self.error(format!("the condition lacks a comparison: {COMPARISONS}"))),
            1 => Ok(filters.swap_remove(0)),
            _ => Ok(Filter::And(filters)),
        }
    }

    fn comparison(
        &mut self,
        name: &str,
        field: Option<&Field>,
        key: &str,
        json: &'a Json,
    ) -> Result<Filter> {
        if let Some((_, op, positive)) = OPERATORS.into_iter().find(|(known, ..)| *known == key) {
            let filter = Filter::Compare(name.to_string(), op, self.literal(field, json)?);
            return Ok(if positive { filter } else { Filter::Not(Box::new(filter)) });
        }
        let name = name.to_string();
        match (key, json) {
            ("in", Json::Array(items)) => Ok(Filter::In(name, self.literals(field, items)?)),
            ("in", _) => Err(self.error("this is an array of values")),
            ("between", Json::Array(items)) if items.len() == 2 => {
                let (low, high) =
                    (self.literal(field, &items[0])?, self.literal(field, &items[1])?);
                Ok(Filter::Between(name, low, high))
            }
            ("between", _) => Err(self.error("this is an array of two values")),
            ("prefix", json) => {
                let value = self.value(field, json)?;
                let value = match field {
                    Some(field) => {
                        field.prefix_literal(value).map_err(|e| self.error(e.message()))?
                    }
                    None => value,
                };
                Ok(Filter::Prefix(name, value))
            }
            ("exists", Json::Bool(true)) => Ok(Filter::Exists(name)),
            ("exists", Json::Bool(false)) => Ok(Filter::Not(Box::new(Filter::Exists(name)))),
            ("exists", _) => Err(self.error("this is true or false")),
            _ => {
                self.path.pop();
                let key = shorten(key);
                Err(self.error(format!("`{key}` is unknown: comparisons are {COMPARISONS}")))
            }
        }
    }

    fn literals(&mut self, field: Option<&Field>, items: &'a [Json]) -> Result<Vec<Value>> {
        if items.len() > MAX_IN {
            return Err(self.error(format!("the list of `in` has more than {MAX_IN} values")));
        }
        let mut values = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            self.path.push(Step::Item(i));
            values.push(self.literal(field, item)?);
            self.path.pop();
        }
        Ok(values)
    }

    /// A value that can be compared with the field.
    fn literal(&self, field: Option<&Field>, json: &Json) -> Result<Value> {
        let value = self.value(field, json)?;
        match field {
            Some(field) => field.literal(value).map_err(|e| self.error(e.message())),
            None => Ok(value),
        }
    }

    /// A value as JSON has it; only forms that depend on the type of the field are converted.
    fn value(&self, field: Option<&Field>, json: &Json) -> Result<Value> {
        match (json, field.map(|field| field.ty)) {
            (Json::Bool(value), _) => Ok(Value::Bool(*value)),
            (Json::Number(number), _) => self.number(number),
            (Json::String(text), Some(Type::Bytes)) => {
                from_hex(text).map(Value::Bytes).map_err(|e| self.error(e.message()))
            }
            (Json::String(text), Some(Type::F64)) if text == "inf" => Ok(Value::F64(f64::INFINITY)),
            (Json::String(text), Some(Type::F64)) if text == "-inf" => {
                Ok(Value::F64(f64::NEG_INFINITY))
            }
            (Json::String(text), _) => Ok(Value::Str(text.clone())),
            (Json::Null, _) => Err(self.error("nothing equals null: use `exists`")),
            _ => Err(self.error("a value is a number, a text, true or false")),
        }
    }

    fn number(&self, number: &Number) -> Result<Value> {
        match JsonNumber::from(number) {
            JsonNumber::Int(value) => Ok(Value::I64(value)),
            JsonNumber::Uint(value) => Ok(Value::U64(value)),
            JsonNumber::Float(value) => Ok(Value::F64(value)),
            JsonNumber::NegativeZero => Ok(Value::F64(-0.0)),
            JsonNumber::Other(text) => {
                let text = shorten(&text);
                Err(self
                    .error(format!("`{text}` fits neither 64 bits nor a double-precision number")))
            }
        }
    }

    /// An error at the current place.
    fn error(&self, message: impl AsRef<str>) -> Error {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if text.is_empty() => text.push_str(key),
                Step::Key(key) => {
                    text.push('.');
                    text.push_str(key);
                }
                Step::Item(i) => {
                    let _ = write!(text, "[{i}]"); // A string takes everything.
                }
            }
        }
        Error::invalid(format!("{text}: {}", message.as_ref()))
    }
}
