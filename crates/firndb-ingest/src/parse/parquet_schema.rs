//! Changes of Parquet schemas. The leaf columns stay, in their order.

use crate::parse::columnar::Refused;
use crate::parse::failure::Failure;
use parquet::basic::{ConvertedType, LogicalType};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};
use std::collections::HashSet;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Failure>;

fn reason(error: ParquetError) -> Failure {
    Failure::from(error).of_schema()
}

/// The schema without groups that have no leaf columns. The columns that had such groups are added
/// to `refused`, with the reason.
pub(crate) fn without_empty_groups(root: &TypePtr, refused: &mut Vec<Refused>) -> Result<TypePtr> {
    let mut fields = Vec::with_capacity(root.get_fields().len());
    for field in root.get_fields() {
        let mut empty = None;
        fields.extend(pruned(field, "", &mut empty)?);
        if let Some(path) = empty {
            let why = format!("`{path}` is a group without fields; name the other columns");
            let column = field.name().to_string();
            refused.push(Refused { column, reason: why, is_empty_group: true });
        }
    }
    match fields.is_empty() {
        true => Err(Failure::unsupported("it has no columns")),
        false if refused.is_empty() => Ok(root.clone()),
        false => group(root, fields),
    }
}

/// The type without empty groups; `None` if nothing is left. `empty` receives the path of one.
fn pruned(ty: &TypePtr, outer: &str, empty: &mut Option<String>) -> Result<Option<TypePtr>> {
    if ty.is_primitive() {
        return Ok(Some(ty.clone()));
    }
    let path =
        if outer.is_empty() { ty.name().to_string() } else { format!("{outer}.{}", ty.name()) };
    let mut fields = Vec::with_capacity(ty.get_fields().len());
    for field in ty.get_fields() {
        fields.extend(pruned(field, &path, empty)?);
    }
    if fields.is_empty() {
        empty.get_or_insert(path);
        return Ok(None);
    }
    if fields.len() == ty.get_fields().len() && empty.is_none() {
        return Ok(Some(ty.clone()));
    }
    group(ty, fields).map(Some)
}

/// A group with other fields.
pub(crate) fn group(ty: &Type, fields: Vec<TypePtr>) -> Result<TypePtr> {
    let info = ty.get_basic_info();
    let mut builder = Type::group_type_builder(info.name())
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_id(info.has_id().then(|| info.id()))
        .with_fields(fields);
    if info.has_repetition() {
        builder = builder.with_repetition(info.repetition());
    }
    builder.build().map(Arc::new).map_err(reason)
}

/// A type with neither logical nor converted types.
pub(crate) fn plain(ty: &TypePtr) -> Result<TypePtr> {
    if ty.is_primitive() {
        return primitive(ty, None);
    }
    let fields = ty.get_fields().iter().map(plain).collect::<Result<Vec<_>>>()?;
    let info = ty.get_basic_info();
    let mut builder = Type::group_type_builder(info.name()).with_fields(fields);
    if info.has_repetition() {
        builder = builder.with_repetition(info.repetition());
    }
    builder.build().map(Arc::new).map_err(reason)
}

fn primitive(ty: &Type, logical: Option<LogicalType>) -> Result<TypePtr> {
    let Type::PrimitiveType { basic_info: info, physical_type, type_length, .. } = ty else {
        return Err(Failure::unsupported(format!("`{}` is a group", ty.name())));
    };
    Type::primitive_type_builder(info.name(), *physical_type)
        .with_repetition(info.repetition())
        .with_converted_type(ConvertedType::NONE)
        .with_logical_type(logical)
        .with_length(*type_length)
        .with_id(info.has_id().then(|| info.id()))
        .build()
        .map(Arc::new)
        .map_err(reason)
}

/// The schema with the leaf columns of these numbers as texts.
pub(crate) fn as_texts(root: &TypePtr, leaves: &HashSet<usize>) -> Result<TypePtr> {
    texts(root, leaves, &mut 0)
}

fn texts(ty: &TypePtr, leaves: &HashSet<usize>, leaf: &mut usize) -> Result<TypePtr> {
    if ty.is_primitive() {
        let number = std::mem::replace(leaf, *leaf + 1);
        return match leaves.contains(&number) {
            true => primitive(ty, Some(LogicalType::String)),
            false => Ok(ty.clone()),
        };
    }
    let fields = ty.get_fields().iter().map(|field| texts(field, leaves, leaf));
    let fields = fields.collect::<Result<Vec<_>>>()?;
    group(ty, fields)
}
