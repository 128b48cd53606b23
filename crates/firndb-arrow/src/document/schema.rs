//! Schemas of collections to and from Arrow schemas.

use arrow_schema::{DataType, Field as Column, Schema as ArrowSchema, TimeUnit};
use firndb::search::{Field, Roles, Schema, Type};
use firndb::{Error, Result};
use std::sync::Arc;

/// The Arrow schema of some fields.
pub fn to_arrow_schema(fields: &[Field]) -> ArrowSchema {
    ArrowSchema::new(fields.iter().map(column_of).collect::<Vec<Column>>())
}

pub(crate) fn column_of(field: &Field) -> Column {
    match field.multi {
        false => Column::new(&field.name, data_type(field.ty), field.nullable),
        true => Column::new(&field.name, DataType::List(item_of(field.ty)), false),
    }
}

/// The column of the items of a list.
pub(crate) fn item_of(ty: Type) -> Arc<Column> {
    Arc::new(Column::new("item", data_type(ty), false))
}

fn data_type(ty: Type) -> DataType {
    match ty {
        Type::Bool => DataType::Boolean,
        Type::I64 => DataType::Int64,
        Type::U64 => DataType::UInt64,
        Type::F64 => DataType::Float64,
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::String => DataType::Utf8,
        Type::Bytes => DataType::Binary,
    }
}

/// The schema of a collection for record batches. Fields have all roles; multi-valued fields, of
/// columns of lists, can be filtered by and read back. Integers become `i64` or `u64`, dates and
/// timestamps `timestamp`. Dictionaries have the type of their values; columns without values are
/// strings.
///
/// # Errors
///
/// `InvalidArgument` for columns of other types, and for columns that cannot be fields of a schema.
pub fn from_arrow_schema(schema: &ArrowSchema) -> Result<Schema> {
    Schema::new(schema.fields().iter().map(|column| field_of(column)).collect::<Result<Vec<_>>>()?)
}

fn field_of(column: &Column) -> Result<Field> {
    let unsupported = || {
        let (name, ty) = (column.name(), column.data_type());
        Error::invalid(format!("column `{name}`: a field cannot be of the type {ty}"))
    };
    let item = match column.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item,
        ty => {
            let ty = field_type(ty).ok_or_else(unsupported)?;
            let field = Field::new(column.name(), ty, Roles::FULL);
            return Ok(if column.is_nullable() { field.nullable() } else { field });
        }
    };
    let ty = field_type(item.data_type()).ok_or_else(unsupported)?;
    Ok(Field::new(column.name(), ty, Roles::FILTERABLE.with(Roles::STORED)).multi())
}

fn field_type(ty: &DataType) -> Option<Type> {
    Some(match ty {
        DataType::Boolean => Type::Bool,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Type::I64,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Type::I64,
        DataType::UInt64 => Type::U64,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Type::F64,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => Type::Timestamp,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Type::Bytes,
        DataType::FixedSizeBinary(_) => Type::Bytes,
        DataType::Dictionary(_, values) => return field_type(values),
        DataType::Null => Type::String,
        _ => return None,
    })
}
