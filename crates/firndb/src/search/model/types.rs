//! The types of field values.

/// The type of a field's values. The numeric codes are stored in files and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `true` or `false`.
    Bool = 1,
    /// Signed 64-bit integer.
    I64 = 2,
    /// Unsigned 64-bit integer.
    U64 = 3,
    /// Double-precision number; NaN is rejected.
    F64 = 4,
    /// Microseconds since the epoch, UTC.
    Timestamp = 5,
    /// UTF-8 text, ordered by its bytes.
    String = 6,
    /// Arbitrary bytes, ordered as unsigned bytes.
    Bytes = 7,
}

impl Type {
    /// Every type.
    pub const ALL: [Type; 7] =
        [Type::Bool, Type::I64, Type::U64, Type::F64, Type::Timestamp, Type::String, Type::Bytes];

    /// The name in schemas: `bool`, `i64`, `u64`, `f64`, `timestamp`, `string`, `bytes`.
    pub fn name(self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::I64 => "i64",
            Type::U64 => "u64",
            Type::F64 => "f64",
            Type::Timestamp => "timestamp",
            Type::String => "string",
            Type::Bytes => "bytes",
        }
    }

    /// The type with this name.
    pub fn from_name(name: &str) -> Option<Type> {
        Type::ALL.into_iter().find(|t| t.name() == name)
    }

    pub(crate) fn from_code(code: u8) -> Option<Type> {
        Type::ALL.into_iter().find(|t| *t as u8 == code)
    }

    /// Whether keys are 64-bit numbers: all types but string and bytes.
    pub(crate) fn is_fixed(self) -> bool {
        !matches!(self, Type::String | Type::Bytes)
    }
}
