//! The schema of a partition: named, typed fields with roles; the order of documents; the form of
//! payloads.

use crate::search::model::names::edit_distance;
use crate::search::model::names::list_names;
use crate::search::model::names::shorten;
use crate::search::model::query::OrderBy;
use crate::search::model::types::Type;
use crate::{Error, Result};

/// What a field is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Conditions and facets on the field.
    pub filterable: bool,
    /// Order by the field; single-valued fields only. A sortable field's value can be read back by
    /// document.
    pub sortable: bool,
    /// The field's values can be read back by document.
    pub stored: bool,
}

impl Roles {
    /// Filters and facets.
    pub const FILTERABLE: Roles = Roles { filterable: true, sortable: false, stored: false };
    /// Ordering.
    pub const SORTABLE: Roles = Roles { filterable: false, sortable: true, stored: false };
    /// Filters, facets, ordering, and reading back.
    pub const FULL: Roles = Roles { filterable: true, sortable: true, stored: true };
    /// Reading back.
    pub const STORED: Roles = Roles { filterable: false, sortable: false, stored: true };

    /// Both sets of roles together.
    pub const fn with(self, other: Roles) -> Roles {
        Roles {
            filterable: self.filterable || other.filterable,
            sortable: self.sortable || other.sortable,
            stored: self.stored || other.stored,
        }
    }

    pub(crate) fn to_code(self) -> u8 {
        u8::from(self.filterable) | u8::from(self.sortable) << 1 | u8::from(self.stored) << 2
    }

    pub(crate) fn from_code(code: u8) -> Option<Roles> {
        (code < 8).then_some(Roles {
            filterable: code & 1 != 0,
            sortable: code & 2 != 0,
            stored: code & 4 != 0,
        })
    }
}

/// A named field of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name: 1 to 255 bytes of UTF-8.
    pub name: String,
    /// Type of the values.
    pub ty: Type,
    /// What the field is for.
    pub roles: Roles,
    /// A document may have several values (a set of them).
    pub multi: bool,
    /// A document may have no value.
    pub nullable: bool,
    /// The documents of a value are found by a scan: see [`Field::scanned`].
    pub scanned: bool,
}

impl Field {
    /// A single-valued field that every document must have.
    pub fn new(name: impl Into<String>, ty: Type, roles: Roles) -> Field {
        Field { name: name.into(), ty, roles, multi: false, nullable: false, scanned: false }
    }

    /// Whether two fields differ in nothing but how their documents are found.
    pub(crate) fn is_like(&self, other: &Field) -> bool {
        let Field { name, ty, roles, multi, nullable, scanned: _ } = self;
        (name, ty, roles) == (&other.name, &other.ty, &other.roles)
            && (*multi, *nullable) == (other.multi, other.nullable)
    }

    /// Lets documents have several values (and none).
    pub fn multi(mut self) -> Field {
        self.multi = true;
        self.nullable = true;
        self
    }

    /// Lets documents have no value.
    pub fn nullable(mut self) -> Field {
        self.nullable = true;
        self
    }

    /// Keeps no lists of the documents of each value, but a column of a number a document, which
    /// conditions scan: of a million documents a sortable number takes less than half the bytes,
    /// another one three quarters. For what is asked for by ranges, as prices are, or beside a
    /// condition on another field that few documents satisfy. A condition on the field alone takes
    /// 30 to 80 us for a million documents on a processor with AVX-512 VBMI, whether it is true of
    /// one of them or of most; lists take less than that for the few documents of one value. `in`
    /// takes as long for each value that does not follow another one, and 1.6 ms at most.
    ///
    /// Where another field of at most 256 values is told by this one's, in the same order, as the
    /// make `audi` is by the model `audi a4`, the number says only which model of its make it is.
    /// All documents have a value of both then, and this one is not sortable.
    ///
    /// A sortable field keeps the lists of its first and last documents, a sixteenth of all, at
    /// most 8,192, so that pages at either end of an order need no pass.
    ///
    /// The field is filterable or sortable and has one value. Fields of 5 to 256 values are kept so
    /// anyway; partitions of at most 4,096 documents have lists anyway, and fields in whose order
    /// the documents stand, or which are part of a point, need neither.
    pub fn scanned(mut self) -> Field {
        self.scanned = true;
        self
    }
}

/// How payloads are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Payload {
    /// As they are: a payload is read without a copy.
    #[default]
    Raw,
    /// Blocks of about 16 KiB compressed by zstd at this level, optionally with a dictionary
    /// trained on the partition's first payloads.
    Zstd {
        /// zstd level, 1 to 19.
        level: i32,
        /// Train a dictionary (up to 64 KiB) from a sample of the payloads.
        dictionary: bool,
    },
}

impl Payload {
    /// `InvalidArgument` if the level is out of range.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Payload::Zstd { level, .. } if !(1..=19).contains(&level) => {
                Err(Error::invalid(format!("the zstd level of payloads is {level}; use 1 to 19")))
            }
            _ => Ok(()),
        }
    }
}

/// Fields, document order and payload form of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    pub(crate) fields: Vec<Field>,
    pub(crate) dynamic: Option<Roles>,
    pub(crate) order: Vec<OrderBy>,
    pub(crate) payload: Payload,
    /// Pairs of fields that are kept as points: the earlier field first, and in the order of the
    /// later ones.
    pub(crate) points: Vec<[usize; 2]>,
}

/// Fields a schema may have at most.
pub const MAX_FIELDS: usize = 4096;

impl Schema {
    /// A schema of these fields.
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Result<Schema> {
        let mut schema = Schema::default();
        fields.into_iter().try_for_each(|field| schema.add(field))?;
        Ok(schema)
    }

    /// Schema-free use: a field comes into being with the first document that brings it, with the
    /// type of that value and with `roles`; documents may lack it; it may be multi-valued unless
    /// `roles` has sortable.
    pub fn dynamic(roles: Roles) -> Schema {
        Schema { dynamic: Some(roles), ..Schema::default() }
    }

    /// Adds a field.
    pub fn add(&mut self, field: Field) -> Result<()> {
        let name = &field.name;
        if name.is_empty() || name.len() > 255 {
            return Err(Error::invalid(format!(
                "a field's name has {} bytes; it may have 1 to 255",
                name.len()
            )));
        }
        if self.fields.iter().any(|f| f.name == *name) {
            return Err(Error::invalid(format!("the schema names field `{name}` twice")));
        }
        if field.roles == Roles::default() {
            return Err(Error::invalid(format!(
                "field `{name}` has no role; give it one of filterable, sortable, full, stored"
            )));
        }
        if field.multi && field.roles.sortable {
            return Err(Error::invalid(format!(
                "field `{name}` is multi-valued and sortable; \
                 several values have no place in one order"
            )));
        }
        if field.scanned && (field.multi || !(field.roles.filterable || field.roles.sortable)) {
            let why = if field.multi { "has several values" } else { "is asked for nothing" };
            return Err(Error::invalid(format!("field `{name}` {why}: it cannot be scanned")));
        }
        if self.fields.len() == MAX_FIELDS {
            return Err(Error::invalid(format!("a schema has at most {MAX_FIELDS} fields")));
        }
        self.fields.push(field);
        Ok(())
    }

    /// Keeps the documents of a partition in this order instead of the order they were added in
    /// (ties keep it). Queries that order by it, or by a prefix of it, stop early; runs of equal
    /// values take no space.
    pub fn order_by(mut self, order: impl IntoIterator<Item = OrderBy>) -> Result<Schema> {
        self.order = order.into_iter().collect();
        for key in &self.order {
            match self.field(&key.field) {
                Some((_, f)) if f.roles.sortable => {}
                Some(_) => {
                    return Err(Error::invalid(format!(
                        "documents cannot be ordered by `{}`: it is not sortable",
                        key.field
                    )));
                }
                None if self.dynamic.is_some_and(|roles| roles.sortable) => {}
                None if self.dynamic.is_some() => {
                    return Err(Error::invalid(format!(
                        "documents cannot be ordered by `{}`: fields that documents bring are not \
                         sortable here",
                        key.field
                    )));
                }
                None => return Err(self.unknown(&key.field)),
            }
        }
        Ok(self)
    }

    /// Keeps two fields that are asked for together, as latitude and longitude, as points in a
    /// plane: a query with a range of each looks at a few documents beside those it finds, however
    /// many either range has. Partitions of more than 4,096 documents have points, unless the
    /// documents stand in the order of one of the fields anyhow; a condition on one of the fields
    /// alone finds its documents there, too, in more time than without. The fields are
    /// single-valued, filterable and not sortable, and are numbers or timestamps; a field is part
    /// of one point at most. Partitions that are merged have the points of all of them.
    ///
    /// ```
    /// # use firndb::search::{Field, Roles, Schema, Type};
    /// let field = |name| Field::new(name, Type::F64, Roles::FILTERABLE);
    /// let schema = Schema::new([field("lat"), field("lon")])?.point("lat", "lon")?;
    /// assert_eq!(schema.points().collect::<Vec<_>>(), [["lat", "lon"]]);
    /// # Ok::<(), firndb::Error>(())
    /// ```
    pub fn point(mut self, first: &str, second: &str) -> Result<Schema> {
        let find = |name| self.field(name).map(|(i, _)| i).ok_or_else(|| self.unknown(name));
        let pair = [find(first)?, find(second)?];
        self.add_point(pair)?;
        Ok(self)
    }

    /// [`Schema::point`] of fields by their numbers.
    pub(crate) fn add_point(&mut self, pair: [usize; 2]) -> Result<()> {
        for i in pair {
            let Some(f) = self.fields.get(i) else {
                return Err(Error::invalid(format!("a point of field {i}, which there is not")));
            };
            let wrong = match () {
                () if pair[0] == pair[1] => "cannot be both parts of a point",
                () if self.points.iter().flatten().any(|&other| other == i) => {
                    "is part of another point"
                }
                () if f.multi => "cannot be part of a point: it has several values",
                () if !f.ty.is_fixed() => "cannot be part of a point: it is no number",
                () if !f.roles.filterable => "cannot be part of a point: it is not filterable",
                () if f.roles.sortable => {
                    "cannot be part of a point: it is sortable, and points have no order"
                }
                () => continue,
            };
            return Err(Error::invalid(format!("field `{}` {wrong}", f.name)));
        }
        self.points.push([pair[0].min(pair[1]), pair[0].max(pair[1])]);
        self.points.sort_unstable_by_key(|pair| pair[1]);
        Ok(())
    }

    /// The earlier field of the point that a field is part of, and which of the two it is.
    pub(crate) fn part_of_point(&self, field: usize) -> Option<(usize, usize)> {
        let part = |pair: &[usize; 2]| pair.iter().position(|other| *other == field);
        self.points.iter().find_map(|pair| Some((pair[0], part(pair)?)))
    }

    /// Takes the points of another schema, whose fields are here too. An error if one has a field
    /// that is part of another point here.
    pub(crate) fn adopt_points(&mut self, other: &Schema) -> Result<()> {
        for [a, b] in other.points() {
            let pair = [a, b].map(|name| self.field(name).map(|(i, _)| i));
            let [Some(a), Some(b)] = pair else { continue };
            if !self.points.contains(&[a.min(b), a.max(b)]) {
                self.add_point([a, b])?;
            }
        }
        Ok(())
    }

    /// The names of the fields that are kept as points, in pairs: the one that was added before
    /// the other first.
    pub fn points(&self) -> impl Iterator<Item = [&str; 2]> {
        self.points.iter().map(|pair| pair.map(|i| self.fields[i].name.as_str()))
    }

    /// Sets how payloads are kept. A level that zstd does not have is refused with the first
    /// document of a builder.
    pub fn payload(mut self, payload: Payload) -> Schema {
        self.payload = payload;
        self
    }

    /// The fields, in the order they were added.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The order of documents; empty if they stay as added.
    pub fn order(&self) -> &[OrderBy] {
        &self.order
    }

    /// Fields come into being as documents bring them.
    pub fn is_dynamic(&self) -> bool {
        self.dynamic.is_some()
    }

    /// How payloads are kept.
    pub fn payload_form(&self) -> Payload {
        self.payload
    }

    /// The field of this name and its number.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        self.fields.iter().enumerate().find(|(_, f)| f.name == name)
    }

    /// The error for a name that is not in the schema: it names the candidates, the closest first.
    pub(crate) fn unknown(&self, name: &str) -> Error {
        // A name may come from outside and have any length; the distance takes the product of both.
        let name = &shorten(name);
        let mut names: Vec<&str> = self.fields.iter().map(|f| f.name.as_str()).collect();
        names.sort_by_cached_key(|candidate| edit_distance(name, candidate));
        if names.is_empty() {
            return Error::invalid(format!("there is no field `{name}`; the schema has no fields"));
        }
        let list = list_names(&names);
        Error::invalid(format!("there is no field `{name}`; fields are {list}"))
    }
}

#[cfg(test)]
mod tests;
