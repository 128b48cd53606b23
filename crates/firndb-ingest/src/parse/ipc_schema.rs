//! Checks Arrow schemas before they are converted: the conversion panics for types that it does not
//! support, and ignores the byte order.

use crate::parse::failure::Failure;
use arrow_ipc::{DateUnit, Field, IntervalUnit, Precision, Schema, TimeUnit, Type, UnionMode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::collections::HashSet;

type Result<T> = std::result::Result<T, Failure>;

/// Checks that all columns of a schema have types that can be converted.
///
/// # Errors
///
/// The column and its type; a foreign byte order.
pub(crate) fn check_schema(schema: &Schema) -> Result<()> {
    if !schema.endianness().equals_to_target_endianness() {
        let message = "it was written on a machine with the other byte order (big-endian), which \
                       is not supported; write it on a little-endian machine, or as Parquet";
        return Err(Failure::unsupported(message));
    }
    let fields = schema.fields();
    let fields = fields.ok_or_else(|| Failure::unsupported("it has no columns"))?;
    fields.iter().try_for_each(|field| check_field(&field, None))
}

/// Whether the Arrow schema that the metadata of a Parquet file holds can be converted.
pub(crate) fn is_usable(encoded: &str) -> bool {
    let Ok(bytes) = BASE64_STANDARD.decode(encoded) else { return false };
    let message = match &bytes[..] {
        [0xff, 0xff, 0xff, 0xff, _, _, _, _, message @ ..] => message,
        message => message,
    };
    let message = arrow_ipc::root_as_message(message).ok();
    let schema = message.and_then(|message| message.header_as_schema());
    schema.is_some_and(|schema| check_schema(&schema).is_ok())
}

fn check_field(field: &Field, outer: Option<&str>) -> Result<()> {
    let name = field.name().unwrap_or_default();
    let path = outer.map_or_else(|| name.to_string(), |outer| format!("{outer}.{name}"));
    let is_good = check_type(field).and_then(|()| match field.dictionary().is_some() {
        true => check_index(field),
        false => Ok(()),
    });
    is_good.map_err(|ty| {
        Failure::unsupported(format!("column `{path}`: the type {ty} is not supported"))
    })?;
    let children = field.children().into_iter().flatten();
    children.into_iter().try_for_each(|child| check_field(&child, Some(&path)))
}

/// The index type of a dictionary.
fn check_index(field: &Field) -> std::result::Result<(), String> {
    let index = field.dictionary().and_then(|dictionary| dictionary.indexType());
    match index.map(|index| index.bitWidth()) {
        Some(8 | 16 | 32 | 64) => Ok(()),
        Some(bits) => Err(format!("Dictionary with an index of {bits} bits")),
        None => Err("Dictionary without the type of its index".to_string()),
    }
}

/// The error is a description of the type.
fn check_type(field: &Field) -> std::result::Result<(), String> {
    let ty = field.type_type();
    let name = ty.variant_name().unwrap_or("unknown");
    let children = field.children().map_or(0, |children| children.len());
    let is_time = |unit| {
        let all = [TimeUnit::SECOND, TimeUnit::MILLISECOND, TimeUnit::MICROSECOND];
        all.contains(&unit) || unit == TimeUnit::NANOSECOND
    };
    let good = match ty {
        Type::Null | Type::Bool | Type::Binary | Type::LargeBinary | Type::BinaryView => true,
        Type::Utf8 | Type::LargeUtf8 | Type::Utf8View | Type::Struct_ => true,
        Type::FixedSizeBinary => {
            field.type_as_fixed_size_binary().is_some_and(|t| t.byteWidth() >= 0)
        }
        Type::Int => field.type_as_int().is_some_and(|t| matches!(t.bitWidth(), 8 | 16 | 32 | 64)),
        Type::FloatingPoint => field.type_as_floating_point().is_some_and(|t| {
            matches!(t.precision(), Precision::HALF | Precision::SINGLE | Precision::DOUBLE)
        }),
        Type::Date => field
            .type_as_date()
            .is_some_and(|t| matches!(t.unit(), DateUnit::DAY | DateUnit::MILLISECOND)),
        Type::Time => field.type_as_time().is_some_and(|t| match t.bitWidth() {
            32 => matches!(t.unit(), TimeUnit::SECOND | TimeUnit::MILLISECOND),
            64 => matches!(t.unit(), TimeUnit::MICROSECOND | TimeUnit::NANOSECOND),
            _ => false,
        }),
        Type::Timestamp => field.type_as_timestamp().is_some_and(|t| is_time(t.unit())),
        Type::Duration => field.type_as_duration().is_some_and(|t| is_time(t.unit())),
        Type::Interval => field.type_as_interval().is_some_and(|t| {
            let units = [IntervalUnit::YEAR_MONTH, IntervalUnit::DAY_TIME];
            units.contains(&t.unit()) || t.unit() == IntervalUnit::MONTH_DAY_NANO
        }),
        Type::List | Type::LargeList | Type::ListView | Type::LargeListView => children == 1,
        Type::FixedSizeList => {
            children == 1 && field.type_as_fixed_size_list().is_some_and(|t| t.listSize() >= 0)
        }
        Type::Map => is_map(field),
        Type::RunEndEncoded => children == 2,
        Type::Decimal => is_decimal(field)?,
        Type::Union => is_union(field, children),
        _ => false,
    };
    if good { Ok(()) } else { Err(name.to_string()) }
}

/// A map has entries of two columns.
fn is_map(field: &Field) -> bool {
    let Some(children) = field.children().filter(|children| children.len() == 1) else {
        return false;
    };
    let entries = children.get(0);
    entries.type_type() == Type::Struct_
        && entries.children().is_some_and(|columns| columns.len() == 2)
        && field.type_as_map().is_some()
}

fn is_decimal(field: &Field) -> std::result::Result<bool, String> {
    let Some(decimal) = field.type_as_decimal() else { return Ok(false) };
    let (bits, precision, scale) = (decimal.bitWidth(), decimal.precision(), decimal.scale());
    let digits = match bits {
        32 => 9,
        64 => 18,
        128 => 38,
        256 => 76,
        _ => 0,
    };
    match (1..=digits).contains(&precision) && i8::try_from(scale).is_ok() {
        true => Ok(true),
        false => Err(format!("Decimal of {bits} bits, {precision} digits and the scale {scale}")),
    }
}

fn is_union(field: &Field, children: usize) -> bool {
    let Some(union) = field.type_as_union() else { return false };
    let mut seen = HashSet::new();
    let has_own = |id: i32| (0..=127).contains(&id) && seen.insert(id);
    matches!(union.mode(), UnionMode::Dense | UnionMode::Sparse)
        && children <= 128
        && union.typeIds().is_none_or(|ids| ids.len() == children && ids.iter().all(has_own))
}
