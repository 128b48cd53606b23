//! Decodes data to JSON.

use crate::avro::text::{self, decimal, duration, time};
use crate::avro::{ANY, Field, MAX_DATUM_DEPTH, MAX_EMPTY_ITEMS, NUMBER, Record, Type, Unit};
use serde_json::{Map, Number, Value as Json};
use std::collections::HashMap;

/// The error is the reason why bytes are not a datum of the schema.
type Result<T> = std::result::Result<T, String>;

/// Decodes the data of one schema.
///
/// ```
/// use firndb_arrow::avro::Decoder;
///
/// let schema = r#"{"type": "record", "name": "test", "fields": [
///     {"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}"#;
/// let decoder = Decoder::new(schema)?;
/// let json = decoder.json(&[0x36, 0x06, b'f', b'o', b'o'])?;
/// assert_eq!(json.to_string(), r#"{"a":27,"b":"foo"}"#);
/// assert!(decoder.json(&[0x36]).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    ty: Type,
    /// Records, enums and fixed types, to which names can refer.
    named: HashMap<String, Type>,
}

impl Decoder {
    /// A decoder for the JSON text of a schema.
    ///
    /// # Errors
    ///
    /// The reason why the text is not a schema: see [`Type::parse`].
    pub fn new(schema: &str) -> Result<Decoder> {
        let ty = Type::parse(schema)?;
        let named = named_types(&ty);
        Ok(Decoder { ty, named })
    }

    /// The schema.
    pub fn schema(&self) -> &Type {
        &self.ty
    }

    /// Names of the columns if the schema is a record.
    pub fn columns(&self) -> Option<Vec<&str>> {
        match &self.ty {
            Type::Record(record) => {
                Some(record.fields.iter().map(|field| field.column.as_str()).collect())
            }
            _ => None,
        }
    }

    /// A datum as JSON: an object for a record, hexadecimal digits for bytes, text for dates, times
    /// and decimals.
    ///
    /// # Errors
    ///
    /// The reason, if the bytes are not exactly one datum of the schema, or exceed
    /// [`MAX_DATUM_DEPTH`] or [`MAX_EMPTY_ITEMS`].
    pub fn json(&self, datum: &[u8]) -> Result<Json> {
        let mut reader = Reader::new(datum, &self.named);
        let json = reader.value(&self.ty, 0)?;
        match reader.rest.len() {
            0 => Ok(json),
            more => Err(format!("{more} bytes follow the value")),
        }
    }
}

/// The records, enums and fixed types of a schema, by their names.
pub(crate) fn named_types(ty: &Type) -> HashMap<String, Type> {
    let mut named = HashMap::new();
    collect(ty, &mut named);
    named
}

fn collect(ty: &Type, named: &mut HashMap<String, Type>) {
    match ty {
        Type::Fixed { name, .. } | Type::Enum { name, .. } => {
            named.insert(name.clone(), ty.clone());
        }
        Type::Array(inner) | Type::Map(inner) => collect(inner, named),
        Type::Union(types) => types.iter().for_each(|ty| collect(ty, named)),
        Type::Record(record) => {
            named.insert(record.name.clone(), ty.clone());
            record.fields.iter().for_each(|field| collect(&field.ty, named));
        }
        _ => {}
    }
}

/// Reads the parts of a datum.
pub(crate) struct Reader<'a> {
    /// The bytes that follow.
    pub(crate) rest: &'a [u8],
    named: &'a HashMap<String, Type>,
    /// Items and fields without bytes that may still follow. The number of all others is limited by
    /// the length of the datum.
    pub(crate) empty_left: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(datum: &'a [u8], named: &'a HashMap<String, Type>) -> Reader<'a> {
        Reader { rest: datum, named, empty_left: MAX_EMPTY_ITEMS }
    }

    /// A value as JSON. `depth` is the nesting of the value in the datum.
    pub(crate) fn value(&mut self, ty: &Type, depth: usize) -> Result<Json> {
        if depth > MAX_DATUM_DEPTH {
            return Err("it is nested too deeply".to_string());
        }
        Ok(match ty {
            Type::Null => Json::Null,
            Type::Boolean => Json::Bool(self.boolean()?),
            Type::Int => Json::from(self.int()?),
            Type::Long => Json::from(self.long()?),
            Type::Float => float(f64::from(f32::from_le_bytes(self.array()?))),
            Type::Double => float(f64::from_le_bytes(self.array()?)),
            Type::Bytes => Json::from(hex::encode(self.bytes()?)),
            Type::String => Json::from(self.text()?),
            Type::Date => Json::from(date(self.int()?)),
            Type::TimeMillis => Json::from(time(self.int()?.into(), Unit::Millis)),
            Type::TimeMicros => Json::from(time(self.long()?, Unit::Micros)),
            Type::TimeNanos => Json::from(time(self.long()?, Unit::Nanos)),
            Type::Duration(unit) => Json::from(duration(self.long()?, *unit)),
            Type::Timestamp { unit, local } => Json::from(timestamp(self.long()?, *unit, *local)),
            Type::Decimal { scale, .. } => Json::from(decimal(self.bytes()?, *scale)),
            Type::Fixed { size, decimal: None, .. } => Json::from(hex::encode(self.take(*size)?)),
            Type::Fixed { size, decimal: Some((_, scale)), .. } => {
                Json::from(decimal(self.take(*size)?, *scale))
            }
            Type::Enum { symbols, .. } => Json::from(self.symbol(symbols)?),
            Type::Array(items) => self.list(items, depth)?,
            Type::Map(values) => self.map(values, depth)?,
            Type::Union(types) => {
                let number = self.long()?;
                let ty = usize::try_from(number).ok().and_then(|i| types.get(i));
                self.value(ty.ok_or_else(|| format!("a union has no type {number}"))?, depth + 1)?
            }
            Type::Record(record) => self.record(record, depth)?,
            Type::Named(name) => {
                let ty = self.named.get(name).ok_or_else(|| format!("there is no type {name}"))?;
                self.value(ty, depth + 1)?
            }
        })
    }

    /// An item of a list or a field of a record.
    fn part(&mut self, ty: &Type, depth: usize) -> Result<Json> {
        self.counting_empty(|reader| reader.value(ty, depth))
    }

    /// Reads an item of a list or a field of a record by `read`, and counts it if it has no bytes.
    pub(crate) fn counting_empty<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    ) -> Result<T> {
        let before = self.rest.len();
        let value = read(self)?;
        if self.rest.len() == before {
            let left = self.empty_left.checked_sub(1);
            self.empty_left = left.ok_or("it has too many nulls or empty records in lists")?;
        }
        Ok(value)
    }

    fn record(&mut self, record: &Record, depth: usize) -> Result<Json> {
        if let (ANY, [field]) = (record.name.as_str(), &record.fields[..]) {
            return self.value(&field.ty, depth + 1);
        }
        if let (NUMBER, [Field { ty: Type::String, .. }]) =
            (record.name.as_str(), &record.fields[..])
        {
            let text = self.text()?;
            let number = serde_json::from_str::<Number>(text);
            return number.map(Json::Number).map_err(|_| format!("`{text}` is not a number"));
        }
        let mut object = Map::new();
        for field in &record.fields {
            object.insert(field.column.clone(), self.part(&field.ty, depth + 1)?);
        }
        Ok(Json::Object(object))
    }

    fn list(&mut self, items: &Type, depth: usize) -> Result<Json> {
        let mut list = Vec::new();
        loop {
            let count = self.block()?;
            if count == 0 {
                return Ok(Json::Array(list));
            }
            for _ in 0..count {
                list.push(self.part(items, depth + 1)?);
            }
        }
    }

    fn map(&mut self, values: &Type, depth: usize) -> Result<Json> {
        let mut object = Map::new();
        loop {
            let count = self.block()?;
            if count == 0 {
                return Ok(Json::Object(object));
            }
            for _ in 0..count {
                let name = self.text()?.to_string();
                object.insert(name, self.value(values, depth + 1)?);
            }
        }
    }

    /// The number of items of the next block. A negative number is followed by the size of the
    /// block in bytes, which this decoder does not need.
    pub(crate) fn block(&mut self) -> Result<u64> {
        let count = self.long()?;
        if count < 0 {
            self.long()?;
        }
        Ok(count.unsigned_abs())
    }

    pub(crate) fn boolean(&mut self) -> Result<bool> {
        match self.take(1)?[0] {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{other} is not a boolean")),
        }
    }

    /// The symbol of an enum.
    pub(crate) fn symbol<'s>(&mut self, symbols: &'s [String]) -> Result<&'s str> {
        let number = self.long()?;
        let symbol = usize::try_from(number).ok().and_then(|i| symbols.get(i));
        symbol.map(String::as_str).ok_or_else(|| format!("there is no symbol {number}"))
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or("it is cut off")?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| "it is cut off".to_string())
    }

    pub(crate) fn long(&mut self) -> Result<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err("a number is too long".to_string())
    }

    pub(crate) fn int(&mut self) -> Result<i32> {
        i32::try_from(self.long()?).map_err(|_| "a number is not of 32 bits".to_string())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = usize::try_from(self.long()?).map_err(|_| "a length is negative")?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "a text is not valid UTF-8".to_string())
    }
}

/// A number, or text for values that JSON numbers cannot express (`NaN`, `inf`).
fn float(value: f64) -> Json {
    Number::from_f64(value).map_or_else(|| Json::from(value.to_string()), Json::Number)
}

/// A day. Days outside the years -9999 to 9999 are shown as a number.
fn date(days: i32) -> String {
    text::date(days.into()).unwrap_or_else(|| format!("{days} days after 1970-01-01"))
}

/// A time. Times outside the years -9999 to 9999 are shown as a number.
fn timestamp(value: i64, unit: Unit, local: bool) -> String {
    let text = text::timestamp(value, unit, local);
    text.unwrap_or_else(|| format!("{value} {}seconds after 1970-01-01", unit.prefix()))
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;
    use serde_json::json;

    fn json_of(schema: &str, bytes: &[u8]) -> Result<Json> {
        Decoder::new(schema).unwrap().json(bytes)
    }

    /// The record of the Avro specification: `{"a": 27, "b": "foo"}` is `36 06 66 6f 6f`.
    #[test]
    fn the_example_of_the_specification_is_decoded() {
        let schema = r#"{"type": "record", "name": "test", "fields": [
            {"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}"#;
        let bytes = [0x36, 0x06, 0x66, 0x6f, 0x6f];
        assert_eq!(json_of(schema, &bytes), Ok(json!({ "a": 27, "b": "foo" })));
        assert!(json_of(schema, &bytes[..4]).unwrap_err().contains("cut off"));
        assert!(
            json_of(schema, &[0x36, 0x06, 0x66, 0x6f, 0x6f, 0]).unwrap_err().contains("follow")
        );
        assert!(json_of(schema, &[0x36, 0x01]).unwrap_err().contains("negative"));
        // A block that states its size in bytes: [3, 27].
        let array = r#"{"type": "array", "items": "long"}"#;
        assert_eq!(json_of(array, &[0x04, 0x06, 0x36, 0]), Ok(json!([3, 27])));
        assert_eq!(json_of(array, &[0x03, 0x04, 0x06, 0x36, 0]), Ok(json!([3, 27])));
    }

    #[test]
    fn any_json_value_round_trips() {
        // The deepest value that the parser accepts, and many small items.
        let deep = "[".repeat(127) + &"]".repeat(127);
        for value in [
            json!({ "a": [1, -2.5, null, true, { "b": "c" }], "": {}, "d": i64::MIN }),
            serde_json::from_str(&deep).unwrap(),
            (0..100_000).map(Json::from).collect(),
        ] {
            let mut bytes = Vec::new();
            encode::any(&value, &mut bytes);
            assert!(json_of(&Type::any().to_json().to_string(), &bytes) == Ok(value));
        }
    }

    #[test]
    fn numbers_of_any_json_value_keep_their_digits() {
        let any = Type::any().to_json().to_string();
        let back = |text: &str| {
            let mut bytes = Vec::new();
            encode::any(&serde_json::from_str(text).unwrap(), &mut bytes);
            json_of(&any, &bytes).unwrap().to_string()
        };
        for text in [
            "0.12345678901234567891",
            "100000000000000000000",
            "18446744073709551615",
            "1.50",
            "-0.0",
            "1e-400",
            "[1.0,{\"a\":2.5,\"b\":-9223372036854775808}]",
        ] {
            assert_eq!(back(text), text);
        }
        let mut text = vec![14];
        encode::bytes(b"1,", &mut text);
        assert!(json_of(&any, &text).unwrap_err().contains("`1,` is not a number"));
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let nulls = r#"{"type": "array", "items": "null"}"#;
        let mut bytes = Vec::new();
        encode::long(i64::MAX, &mut bytes);
        assert!(json_of(nulls, &bytes).unwrap_err().contains("too many"));
        assert!(json_of("\"bytes\"", &bytes).unwrap_err().contains("cut off"));
        assert!(json_of("\"long\"", &[0xff; 12]).unwrap_err().contains("too long"));
        let any = Type::any().to_json().to_string();
        assert!(json_of(&any, &[10, 2].repeat(1000)).unwrap_err().contains("deeply"));
        // As many as a build writes are accepted.
        let mut many = Vec::new();
        encode::long(100_000, &mut many);
        assert!(json_of(nulls, &[&many[..], &[0]].concat()).is_ok());
        let endless = r#"{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}"#;
        assert!(json_of(endless, &[]).unwrap_err().contains("deeply"));
    }

    #[test]
    fn times_without_a_date_are_numbers() {
        assert_eq!(date(2_932_897), "2932897 days after 1970-01-01");
        let shown = timestamp(i64::MIN, Unit::Micros, true);
        assert_eq!(shown, format!("{} microseconds after 1970-01-01", i64::MIN));
        assert_eq!(timestamp(0, Unit::Micros, true), "1970-01-01T00:00:00");
    }

    #[test]
    fn times_of_day_and_durations_become_text() {
        let long = |logical: &str| format!(r#"{{"type": "long", "logicalType": "{logical}"}}"#);
        let mut bytes = Vec::new();
        encode::long(-1_500_000_000, &mut bytes);
        for (logical, text) in [
            ("time-nanos", "-00:00:01.5"),
            ("duration-nanos", "-PT1.5S"),
            ("duration-micros", "-PT1500S"),
            ("duration-millis", "-PT1500000S"),
            ("duration-seconds", "-PT1500000000S"),
        ] {
            assert_eq!(json_of(&long(logical), &bytes), Ok(json!(text)));
        }
        assert_eq!(json_of(&long("duration-days"), &bytes), Ok(json!(-1_500_000_000)));
    }
}
