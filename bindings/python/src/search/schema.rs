//! Schemas. `firndb.Schema` and `firndb.Field` are written in Python; this is what they hold.

use crate::arrow::capsule::Arrays;
use crate::error::Result;
use crate::search::query::{in_text, order_of};
use arrow_schema::DataType;
use firndb::Error;
use firndb::search::{self, Field, Payload, Roles, Type};
use firndb_arrow::document::from_arrow_schema;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Name, type, filterable, sortable, stored, multi, nullable, scanned.
pub type FieldParts = (String, String, bool, bool, bool, bool, bool, bool);

/// The native part of `firndb.Schema`.
#[pyclass(frozen, eq, from_py_object, module = "firndb._native")]
#[derive(Clone, PartialEq)]
pub struct Schema {
    pub schema: search::Schema,
}

#[pymethods]
impl Schema {
    /// A schema of fields. `payload_level` is that of zstd, `None` for uncompressed payloads;
    /// `dynamic` is `None` or three roles.
    #[new]
    #[pyo3(signature = (fields, order = None, points = Vec::new(), payload_level = None,
        payload_dictionary = false, dynamic = None))]
    fn new(
        fields: Vec<FieldParts>,
        order: Option<&Bound<'_, PyAny>>,
        points: Vec<(String, String)>,
        payload_level: Option<i32>,
        payload_dictionary: bool,
        dynamic: Option<(bool, bool, bool)>,
    ) -> Result<Schema> {
        let mut schema = match dynamic {
            Some(roles) => search::Schema::dynamic(roles_of(roles)),
            None => search::Schema::default(),
        };
        for field in fields {
            schema.add(field_of(field)?)?;
        }
        for (first, second) in &points {
            schema = schema.point(first, second)?;
        }
        if let Some(order) = order {
            schema = schema.order_by(order_of(order, None)?)?;
        }
        if let Some(level) = payload_level {
            if !(1..=19).contains(&level) {
                return Err(PyValueError::new_err("a level of zstd is from 1 to 19").into());
            }
            schema = schema.payload(Payload::Zstd { level, dictionary: payload_dictionary });
        }
        Ok(Schema { schema })
    }

    /// Reads a schema in TOML.
    #[staticmethod]
    fn from_toml(text: &str) -> Result<Schema> {
        let schema = search::Schema::from_toml(text).map_err(|e| in_text(text, &e))?;
        Ok(Schema { schema })
    }

    /// The schema of the columns of an object with Arrow capsules.
    #[staticmethod]
    pub fn from_arrow(object: &Bound<'_, PyAny>) -> Result<Schema> {
        let Some(arrays) = Arrays::import(object)? else {
            let name = object.get_type().name()?;
            let message = format!("{name} has no method __arrow_c_stream__");
            return Err(PyTypeError::new_err(message).into());
        };
        Ok(Schema { schema: schema_of_arrays(&arrays)? })
    }

    /// The schema as TOML.
    fn to_toml(&self) -> String {
        self.schema.to_toml()
    }

    /// The fields.
    fn fields(&self) -> Vec<FieldParts> {
        let fields = self.schema.fields().iter();
        fields
            .map(|f| {
                let Roles { filterable, sortable, stored, .. } = f.roles;
                let (name, ty) = (f.name.clone(), f.ty.name().to_string());
                (name, ty, filterable, sortable, stored, f.multi, f.nullable, f.scanned)
            })
            .collect()
    }

    /// The document order, as a text.
    fn order(&self) -> String {
        let keys: Vec<String> = self.schema.order().iter().map(ToString::to_string).collect();
        keys.join(", ")
    }
}

fn roles_of((filterable, sortable, stored): (bool, bool, bool)) -> Roles {
    let roles =
        [(filterable, Roles::FILTERABLE), (sortable, Roles::SORTABLE), (stored, Roles::STORED)];
    let chosen = roles.into_iter().filter(|(has, _)| *has);
    chosen.fold(Roles::default(), |all, (_, role)| all.with(role))
}

fn field_of(parts: FieldParts) -> Result<Field> {
    let (name, ty, filterable, sortable, stored, multi, nullable, scanned) = parts;
    let Some(ty) = Type::from_name(&ty) else {
        let names = Type::ALL.map(Type::name).join(", ");
        let message = format!("field `{name}`: `{ty}` is not a type; there are {names}");
        return Err(PyValueError::new_err(message).into());
    };
    let mut field = Field::new(name, ty, roles_of((filterable, sortable, stored)));
    (field.multi, field.nullable, field.scanned) = (multi, nullable, scanned);
    Ok(field)
}

/// The schema of the columns of record batches.
pub fn schema_of_arrays(arrays: &Arrays) -> firndb::Result<search::Schema> {
    let field = arrays.field();
    let DataType::Struct(columns) = field.data_type() else {
        return Err(Error::invalid(format!(
            "a collection is built from record batches, not from an array of {}",
            field.data_type()
        )));
    };
    from_arrow_schema(&arrow_schema::Schema::new(columns.clone()))
}
