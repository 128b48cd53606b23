//! The Avro types of Arrow columns.

use crate::avro::{Field, Record, Type, Unit, free_name};
use crate::column::Result;
use arrow_schema::{DataType, Field as Column, Fields, TimeUnit};
use std::collections::HashSet;

/// The Avro type of a column of the record type `record`. `names` holds the names of record types
/// that exist, and receives those of the structs in the column.
///
/// # Errors
///
/// The reason, for a type that Avro cannot express.
pub fn avro_type(column: &Column, record: &str, names: &mut Vec<String>) -> Result<Type> {
    let ty = non_null_type(column.data_type(), &format!("{record}_{}", column.name()), names)
        .map_err(|reason| format!("column `{}`: {reason}", column.name()))?;
    Ok(if column.is_nullable() && ty != Type::Null { ty.nullable() } else { ty })
}

fn non_null_type(ty: &DataType, path: &str, names: &mut Vec<String>) -> Result<Type> {
    let timestamp = |unit, local| Type::Timestamp { unit, local };
    Ok(match ty {
        DataType::Null => Type::Null,
        DataType::Boolean => Type::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 => Type::Int,
        DataType::UInt8 | DataType::UInt16 => Type::Int,
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => Type::Long,
        DataType::Duration(TimeUnit::Second) => Type::Duration(Unit::Seconds),
        DataType::Duration(TimeUnit::Millisecond) => Type::Duration(Unit::Millis),
        DataType::Duration(TimeUnit::Microsecond) => Type::Duration(Unit::Micros),
        DataType::Duration(TimeUnit::Nanosecond) => Type::Duration(Unit::Nanos),
        DataType::Float16 | DataType::Float32 => Type::Float,
        DataType::Float64 => Type::Double,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Type::Bytes,
        DataType::FixedSizeBinary(_) => Type::Bytes,
        DataType::Date32 | DataType::Date64 => Type::Date,
        DataType::Time32(_) => Type::TimeMillis,
        DataType::Time64(TimeUnit::Microsecond) => Type::TimeMicros,
        DataType::Time64(_) => Type::TimeNanos,
        DataType::Timestamp(TimeUnit::Microsecond, zone) => timestamp(Unit::Micros, zone.is_none()),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => timestamp(Unit::Nanos, zone.is_none()),
        DataType::Timestamp(_, zone) => timestamp(Unit::Millis, zone.is_none()),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *scale >= 0 =>
        {
            Type::Decimal { precision: (*precision).into(), scale: scale.unsigned_abs().into() }
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Type::Array(Box::new(avro_type(item, path, names)?))
        }
        DataType::Struct(columns) => {
            check_names(columns)?;
            let name = free_name(path, names);
            names.push(name.clone());
            let mut fields = Vec::with_capacity(columns.len());
            for column in columns {
                let ty = avro_type(column, &name, names)?;
                fields.push(Field { column: column.name().clone(), ty });
            }
            Type::Record(Record { name, fields })
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 && is_text(pair[0].data_type()) => {
                Type::Map(Box::new(avro_type(&pair[1], path, names)?))
            }
            _ => return Err("the keys of a map must be texts".to_string()),
        },
        DataType::Dictionary(_, values) => non_null_type(values, path, names)?,
        other => return Err(unsupported(other)),
    })
}

/// Checks that no two columns have the same name.
///
/// # Errors
///
/// The reason, with the name.
pub fn check_names(columns: &Fields) -> Result<()> {
    let mut seen = HashSet::new();
    match columns.iter().find(|column| !seen.insert(column.name())) {
        Some(twice) => {
            Err(format!("two columns have the name `{}`; rename one of them", twice.name()))
        }
        None => Ok(()),
    }
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(crate) fn unsupported(ty: &DataType) -> String {
    format!("the type {ty} cannot be kept; name the other columns with --value")
}
