//! Schemas. `Schema` in Java has the text form, which it passes back, and what the text says.

use crate::convert::{Pack, Unpack, bytes_of};
use crate::error::Result;
use crate::log::Packed;
use firndb::Error;
use firndb::search::query::{asc, desc};
use firndb::search::{Field, Payload, Roles, Schema, Type, point_at};
use jni::Env;
use jni::objects::{JByteArray, JString};

const FILTERABLE: u8 = 1;
const SORTABLE: u8 = 2;
const STORED: u8 = 4;

const MULTI: u8 = 1;
const NULLABLE: u8 = 2;
const SCANNED: u8 = 4;

/// The schema of a text form.
pub fn parse(env: &Env<'_>, text: &JString<'_>) -> Result<Schema> {
    let text = text.try_to_string(env)?;
    let marked = |error: Error| Error::new(error.kind(), point_at(&text, &error));
    Ok(Schema::from_toml(&text).map_err(marked)?)
}

/// Packs what a text form says.
pub fn read<'l>(env: &mut Env<'l>, text: &JString<'_>) -> Result<JByteArray<'l>> {
    let schema = parse(env, text)?;
    pack(&schema).finish(env)
}

/// Changes a schema, and packs it. Each change is a byte that says what it is, and its arguments.
pub fn change<'l>(
    env: &mut Env<'l>,
    text: &JString<'_>,
    changes: &Packed<'_>,
) -> Result<JByteArray<'l>> {
    let mut schema = parse(env, text)?;
    let changes = bytes_of(env, &changes.bytes, changes.length)?;
    let mut unpack = Unpack(&changes);
    while !unpack.0.is_empty() {
        schema = changed(schema, &mut unpack)?;
    }
    pack(&schema).finish(env)
}

fn changed(mut schema: Schema, unpack: &mut Unpack<'_>) -> Result<Schema> {
    Ok(match unpack.byte()? {
        // Only the first change makes a schema dynamic: there are no fields yet.
        0 => Schema::dynamic(roles(unpack.byte()?)),
        1 => {
            schema.add(unpack_field(unpack)?)?;
            schema
        }
        2 => {
            let count = unpack.int()?;
            let key = |_| {
                let field = unpack.text()?;
                Ok(if unpack.byte()? == 0 { asc(field) } else { desc(field) })
            };
            let keys = (0..count).map(key).collect::<Result<Vec<_>>>()?;
            schema.order_by(keys)?
        }
        3 => schema.point(unpack.text()?, unpack.text()?)?,
        4 => schema.payload(match (unpack.int()?.cast_signed(), unpack.byte()? != 0) {
            (0, _) => Payload::Raw,
            (level, dictionary) => Payload::Zstd { level, dictionary },
        }),
        kind => return Err(Error::invalid(format!("a change of a schema is {kind}")).into()),
    })
}

fn unpack_field(unpack: &mut Unpack<'_>) -> Result<Field> {
    let (name, code) = (unpack.text()?, unpack.byte()?);
    let ty = Type::ALL.into_iter().find(|ty| *ty as u8 == code);
    let ty = ty.ok_or_else(|| Error::invalid(format!("the type of a field is {code}")))?;
    let mut field = Field::new(name, ty, roles(unpack.byte()?));
    let flags = unpack.byte()?;
    field.multi = flags & MULTI != 0;
    field.nullable = flags & NULLABLE != 0;
    field.scanned = flags & SCANNED != 0;
    Ok(field)
}

fn roles(bits: u8) -> Roles {
    let all =
        [(FILTERABLE, Roles::FILTERABLE), (SORTABLE, Roles::SORTABLE), (STORED, Roles::STORED)];
    let chosen = all.into_iter().filter(|(bit, _)| bits & bit != 0);
    chosen.fold(Roles::default(), |roles, (_, role)| roles.with(role))
}

/// Packs a schema as `Schema.unpack` reads it: the text form, the fields, the order, the points,
/// the level and the dictionary of payloads, and whether it is dynamic.
pub fn pack(schema: &Schema) -> Pack {
    let mut packed = Pack::default();
    packed.text(&schema.to_toml());
    packed.int(count(schema.fields().len()));
    for field in schema.fields() {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        packed.text(&field.name);
        packed.byte(field.ty as u8);
        packed.byte(
            bit(field.roles.filterable, FILTERABLE)
                | bit(field.roles.sortable, SORTABLE)
                | bit(field.roles.stored, STORED),
        );
        packed.byte(
            bit(field.multi, MULTI) | bit(field.nullable, NULLABLE) | bit(field.scanned, SCANNED),
        );
    }
    packed.int(count(schema.order().len()));
    for key in schema.order() {
        packed.text(&key.field);
        packed.byte(u8::from(key.descending));
    }
    packed.int(count(schema.points().count()));
    for [first, second] in schema.points() {
        packed.text(first);
        packed.text(second);
    }
    let (level, dictionary) = match schema.payload_form() {
        Payload::Zstd { level, dictionary } => (level, dictionary),
        _ => (0, false),
    };
    packed.int(level.cast_unsigned());
    packed.byte(u8::from(dictionary));
    packed.byte(u8::from(schema.is_dynamic()));
    packed
}

/// A number of things of which there are a few thousand at most.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_checked() {
        let change = |bytes: &[u8]| changed(Schema::default(), &mut Unpack(bytes)).ok();
        assert!(change(&[0, FILTERABLE]).is_some_and(|schema| schema.is_dynamic()));
        let field = change(&[1, 1, 0, 0, 0, b'a', 7, STORED, MULTI]);
        let field = field.map(|schema| schema.fields()[0].clone());
        let mut expected = Field::new("a", Type::Bytes, Roles::STORED);
        expected.multi = true;
        assert_eq!(field, Some(expected));
        for wrong in [
            &[][..],
            &[9],
            &[0],
            &[1, 1, 0, 0, 0, b'a', 8, STORED, 0],
            &[1, 1, 0, 0, 0, b'a', 7, 0, 0],
            &[2, 255, 255, 255, 255],
            &[3, 1, 0, 0, 0, b'a'],
            &[4, 1, 0, 0, 0],
        ] {
            assert!(change(wrong).is_none(), "{wrong:?}");
        }
    }
}
