//! Reads and writes schemas as TOML.
//!
//! ```toml
//! order = ["-date", "price"]        # document order; default: as added
//! points = [["lat", "lon"]]         # pairs of fields indexed as points; default: none
//! dynamic = "filterable"            # documents may add fields, with these roles; default: no
//!
//! [payload]                         # default: uncompressed
//! compression = "zstd"              # or "none"
//! level = 3                         # 1 to 19; default: 3
//! dictionary = true                 # default: false
//!
//! [[field]]
//! name = "region"
//! type = "i64"
//! roles = ["filterable"]            # or "filterable stored"; "full" means all three roles
//! multi = false                     # default: false
//! nullable = false                  # default: the same as multi
//! scanned = false                   # default: false
//! ```
//!
//! Instead of `[[field]]`, the table `[fields]` describes each field on one line: the type, then
//! any of the roles, `multi`, `nullable` and `scanned`.
//!
//! ```toml
//! [fields]
//! region = "i64 filterable"
//! tags = "string filterable multi"
//! ```

use crate::search::model::query::{Name, OrderBy};
use crate::search::model::schema::{Field, Payload, Roles, Schema};
use crate::search::model::types::Type;
use crate::search::text::diagnostics::suggest;
use crate::search::text::parse::parse_order;
use crate::{Error, Result};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The names of roles, in the order in which [`Schema::to_toml`] writes them.
const ROLES: [(&str, Roles); 4] = [
    ("full", Roles::FULL),
    ("filterable", Roles::FILTERABLE),
    ("sortable", Roles::SORTABLE),
    ("stored", Roles::STORED),
];

/// The zstd level of payloads if the schema has none.
const DEFAULT_LEVEL: i32 = 3;

impl Schema {
    /// Parses a schema from TOML. Errors are `InvalidArgument`; they name the line and have a span.
    ///
    /// ```
    /// # use firndb::search::Schema;
    /// let schema = Schema::from_toml("[fields]\nprice = 'f64 full nullable'")?;
    /// assert!(schema.fields()[0].nullable);
    /// # Ok::<(), firndb::Error>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Schema> {
        let reader = SchemaReader { text };
        match DeTable::parse(text) {
            Ok(table) => reader.schema(table.get_ref()),
            Err(error) => Err(reader.error(error.span().unwrap_or(0..0), error.message())),
        }
    }

    /// The schema as TOML, which [`Schema::from_toml`] reads.
    pub fn to_toml(&self) -> String {
        let mut out = Vec::new();
        let mut head = String::new();
        if !self.order.is_empty() {
            let keys: Vec<String> = self.order.iter().map(order_key).collect();
            head += &format!("order = [{}]\n", keys.join(", "));
        }
        if !self.points.is_empty() {
            let pairs = self.points().map(|[a, b]| format!("[{}, {}]", quote(a), quote(b)));
            head += &format!("points = [{}]\n", pairs.collect::<Vec<_>>().join(", "));
        }
        if let Some(roles) = self.dynamic {
            head += &format!("dynamic = {}\n", roles_text(roles));
        }
        if !head.is_empty() {
            out.push(head);
        }
        if let Payload::Zstd { level, dictionary } = self.payload {
            out.push(format!(
                "[payload]\ncompression = \"zstd\"\nlevel = {level}\ndictionary = {dictionary}\n"
            ));
        }
        out.extend(self.fields.iter().map(field_text));
        out.join("\n")
    }
}

fn field_text(field: &Field) -> String {
    let mut out = format!(
        "[[field]]\nname = {}\ntype = \"{}\"\nroles = {}\n",
        quote(&field.name),
        field.ty.name(),
        roles_text(field.roles)
    );
    if field.multi {
        out += "multi = true\n";
    }
    if field.nullable != field.multi {
        out += &format!("nullable = {}\n", field.nullable);
    }
    if field.scanned {
        out += "scanned = true\n";
    }
    out
}

fn order_key(key: &OrderBy) -> String {
    quote(&format!("{}{}", if key.descending { "-" } else { "" }, Name(&key.field)))
}

fn roles_text(roles: Roles) -> String {
    let whole = if roles == Roles::FULL { &ROLES[..1] } else { &ROLES[1..] };
    let words = whole.iter().filter(|(_, role)| roles.with(*role) == roles);
    let words: Vec<String> = words.map(|(word, _)| format!("\"{word}\"")).collect();
    format!("[{}]", words.join(", "))
}

/// A TOML basic string.
fn quote(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A key of a table, its span in the text, and its value.
type Entry<'a> = (&'a str, Range<usize>, &'a Spanned<DeValue<'a>>);

/// Converts a parsed TOML document into a schema.
struct SchemaReader<'a> {
    /// The text of the document, for the line numbers in errors.
    text: &'a str,
}

impl SchemaReader<'_> {
    fn schema(&self, table: &DeTable) -> Result<Schema> {
        let mut schema = Schema::default();
        let (mut order, mut points, mut fields_at) = (None, None, None);
        for (key, at, value) in entries(table) {
            match key {
                "order" => order = Some(value),
                "points" => points = Some(value),
                "dynamic" => schema.dynamic = Some(self.dynamic(value)?),
                "payload" => schema.payload = self.payload(&at, self.table(value)?)?,
                "field" | "fields" if fields_at.is_some() => {
                    return Err(self.error(at, "a schema has either [[field]] or [fields]"));
                }
                "field" | "fields" => fields_at = Some((key, at, value)),
                _ => {
                    let keys = ["order", "points", "dynamic", "payload", "field", "fields"];
                    return Err(self.unknown(at, key, "key", &keys));
                }
            }
        }
        match fields_at {
            Some(("fields", _, value)) => self.compact_fields(&mut schema, self.table(value)?)?,
            Some((_, at, value)) => {
                let DeValue::Array(fields) = value.get_ref() else {
                    return Err(self.error(at, "a field is written [[field]]; or use [fields]"));
                };
                for field in fields.iter() {
                    let read = self.field(field.span(), self.table(field)?)?;
                    schema.add(read).map_err(|e| self.error(field.span(), e.message()))?;
                }
            }
            None => {}
        }
        if let Some(value) = points {
            self.points(&mut schema, value)?;
        }
        match order {
            Some(value) => self.order(schema, value),
            None => Ok(schema),
        }
    }

    fn field(&self, at: Range<usize>, table: &DeTable) -> Result<Field> {
        let (mut name, mut ty, mut roles) = (None, None, Roles::default());
        let (mut multi, mut nullable, mut scanned) = (false, None, false);
        for (key, at, value) in entries(table) {
            match key {
                "name" => name = Some(self.string(value)?),
                "type" => ty = Some(self.ty(value.span(), self.string(value)?)?),
                "roles" => roles = self.roles(&value.span(), &self.words(value)?)?,
                "multi" => multi = self.bool(value)?,
                "nullable" => nullable = Some(self.bool(value)?),
                "scanned" => scanned = self.bool(value)?,
                _ => {
                    let keys = ["name", "type", "roles", "multi", "nullable", "scanned"];
                    return Err(self.unknown(at, key, "key of a field", &keys));
                }
            }
        }
        let missing = |key| self.error(at.clone(), format!("the field has no `{key}`"));
        Ok(Field {
            name: name.ok_or_else(|| missing("name"))?.to_string(),
            ty: ty.ok_or_else(|| missing("type"))?,
            roles,
            multi,
            nullable: nullable.unwrap_or(multi),
            scanned,
        })
    }

    fn compact_fields(&self, schema: &mut Schema, table: &DeTable) -> Result<()> {
        for (name, at, value) in entries(table) {
            let words = self.words(value)?;
            let mut rest = words.iter();
            let Some(ty) = rest.next() else {
                return Err(self.error(value.span(), "a field is its type and its roles"));
            };
            let ty = self.ty(value.span(), ty)?;
            let (mut roles, mut field) = (Vec::new(), Field::new(name, ty, Roles::default()));
            for word in rest {
                match *word {
                    "multi" => field = field.multi(),
                    "nullable" => field = field.nullable(),
                    "scanned" => field = field.scanned(),
                    role => roles.push(role),
                }
            }
            field.roles = self.roles(&value.span(), &roles)?;
            schema.add(field).map_err(|e| self.error(at, e.message()))?;
        }
        Ok(())
    }

    fn payload(&self, at: &Range<usize>, table: &DeTable) -> Result<Payload> {
        let (mut compressed, mut level, mut dictionary) = (None, None, None);
        for (key, at, value) in entries(table) {
            match key {
                "compression" => match self.string(value)? {
                    "zstd" => compressed = Some(true),
                    "none" => compressed = Some(false),
                    other => {
                        return Err(self.unknown(
                            value.span(),
                            other,
                            "compression",
                            &["zstd", "none"],
                        ));
                    }
                },
                "level" => level = Some(self.level(value)?),
                "dictionary" => dictionary = Some(self.bool(value)?),
                _ => {
                    let keys = ["compression", "level", "dictionary"];
                    return Err(self.unknown(at, key, "key of the payload", &keys));
                }
            }
        }
        match compressed {
            None => Err(self.error(at.clone(), "the payload has no `compression`: zstd or none")),
            Some(false) if level.is_some() || dictionary.is_some() => {
                Err(self
                    .error(at.clone(), "`level` and `dictionary` are for compression = \"zstd\""))
            }
            Some(false) => Ok(Payload::Raw),
            Some(true) => Ok(Payload::Zstd {
                level: level.unwrap_or(DEFAULT_LEVEL),
                dictionary: dictionary.unwrap_or(false),
            }),
        }
    }

    fn level(&self, value: &Spanned<DeValue>) -> Result<i32> {
        let level = match value.get_ref() {
            DeValue::Integer(v) => i32::from_str_radix(v.as_str(), v.radix()).ok(),
            _ => None,
        };
        let level = level.filter(|level| (1..=19).contains(level));
        level.ok_or_else(|| self.error(value.span(), "`level` is an integer, 1 to 19"))
    }

    /// Sets the document order. Each key is either `name` or `-name` with the name taken literally,
    /// or a sort key of the query language, which takes precedence.
    fn order(&self, schema: Schema, value: &Spanned<DeValue>) -> Result<Schema> {
        let DeValue::Array(keys) = value.get_ref() else {
            return Err(self.wrong(value, "an array of fields, [\"-date\", \"price\"]"));
        };
        let mut order = Vec::new();
        for key in keys.iter() {
            let text = self.string(key)?;
            match parse_order(text, None).as_deref() {
                Ok([key]) => order.push(key.clone()),
                _ => {
                    let name = text.strip_prefix('-');
                    let field = name.unwrap_or(text).to_string();
                    order.push(OrderBy { field, descending: name.is_some() });
                }
            }
        }
        schema.order_by(order).map_err(|e| self.error(value.span(), e.message()))
    }

    fn points(&self, schema: &mut Schema, value: &Spanned<DeValue>) -> Result<()> {
        let expected = "pairs of fields, [[\"lat\", \"lon\"]]";
        let DeValue::Array(pairs) = value.get_ref() else {
            return Err(self.wrong(value, expected));
        };
        for pair in pairs.iter() {
            let names = match pair.get_ref() {
                DeValue::Array(names) if names.len() == 2 => names,
                _ => return Err(self.wrong(pair, expected)),
            };
            let number = |name: &Spanned<DeValue>| {
                let found = schema.field(self.string(name)?).map(|(i, _)| i);
                found.ok_or_else(|| {
                    let unknown = schema.unknown(name.get_ref().as_str().unwrap_or_default());
                    self.error(name.span(), unknown.message())
                })
            };
            let numbers = [number(&names[0])?, number(&names[1])?];
            schema.add_point(numbers).map_err(|e| self.error(pair.span(), e.message()))?;
        }
        Ok(())
    }

    fn dynamic(&self, value: &Spanned<DeValue>) -> Result<Roles> {
        match self.roles(&value.span(), &self.words(value)?)? {
            none if none == Roles::default() => Err(self.error(
                value.span(),
                "fields that come into being need a role; \
                 there are full, filterable, sortable, stored",
            )),
            roles => Ok(roles),
        }
    }

    fn ty(&self, at: Range<usize>, name: &str) -> Result<Type> {
        let names = Type::ALL.map(Type::name);
        Type::from_name(name).ok_or_else(|| self.unknown(at, name, "type", &names))
    }

    fn roles(&self, at: &Range<usize>, words: &[&str]) -> Result<Roles> {
        let mut roles = Roles::default();
        for word in words {
            let Some((_, role)) = ROLES.iter().find(|(name, _)| name == word) else {
                return Err(self.unknown(at.clone(), word, "role", &ROLES.map(|(name, _)| name)));
            };
            roles = roles.with(*role);
        }
        Ok(roles)
    }

    /// The words of a string, or the strings of an array.
    fn words<'v>(&self, value: &'v Spanned<DeValue>) -> Result<Vec<&'v str>> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.split_whitespace().collect()),
            DeValue::Array(words) => words.iter().map(|word| self.string(word)).collect(),
            _ => Err(self.wrong(value, "a string or an array of strings")),
        }
    }

    fn string<'v>(&self, value: &'v Spanned<DeValue>) -> Result<&'v str> {
        value.get_ref().as_str().ok_or_else(|| self.wrong(value, "a string"))
    }

    fn bool(&self, value: &Spanned<DeValue>) -> Result<bool> {
        value.get_ref().as_bool().ok_or_else(|| self.wrong(value, "true or false"))
    }

    fn table<'v>(&self, value: &'v Spanned<DeValue<'v>>) -> Result<&'v DeTable<'v>> {
        value.get_ref().as_table().ok_or_else(|| self.wrong(value, "a table"))
    }

    fn wrong(&self, value: &Spanned<DeValue>, expected: &str) -> Error {
        let found = value.get_ref().type_str();
        self.error(value.span(), format!("expected {expected}, found a value of type {found}"))
    }

    /// The error for a word that is not one of `words`.
    fn unknown(&self, at: Range<usize>, word: &str, what: &str, words: &[&str]) -> Error {
        let hint = suggest(word, words).map(|word| format!("did you mean `{word}`?"));
        let hint = hint.unwrap_or_else(|| format!("there are {}", words.join(", ")));
        self.error(at, format!("`{word}` is not a {what}; {hint}"))
    }

    fn error(&self, at: Range<usize>, message: impl AsRef<str>) -> Error {
        let before = self.text.as_bytes().get(..at.start).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Error::invalid(format!("line {line}: {}", message.as_ref())).with_span(at.start, at.end)
    }
}

/// The entries of a table in the order of the text.
fn entries<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let entry = |(key, value): (&'a Spanned<_>, _)| -> Entry<'a> {
        let name: &std::borrow::Cow<str> = key.get_ref();
        (name, key.span(), value)
    };
    let mut entries: Vec<_> = table.iter().map(entry).collect();
    entries.sort_by_key(|(_, at, _)| at.start);
    entries
}

#[cfg(test)]
mod tests;
