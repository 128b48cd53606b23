//! The schema of a partition: named, typed fields with roles, the document order, and how payloads
//! are stored.

use crate::search::model::names::edit_distance;
use crate::search::model::names::list_names;
use crate::search::model::names::shorten;
use crate::search::model::query::OrderBy;
use crate::search::model::types::Type;
use crate::{Error, Result};

/// The operations that a field supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Roles {
    /// Filters and facets may use the field.
    pub filterable: bool,
    /// Queries may order by the field; single-valued fields only. The value of a sortable field
    /// can also be read by document.
    pub sortable: bool,
    /// The values can be read by document.
    pub stored: bool,
}

impl Roles {
    /// Filters and facets.
    pub const FILTERABLE: Roles = Roles { filterable: true, sortable: false, stored: false };
    /// Ordering.
    pub const SORTABLE: Roles = Roles { filterable: false, sortable: true, stored: false };
    /// Filters, facets, ordering, and reading by document.
    pub const FULL: Roles = Roles { filterable: true, sortable: true, stored: true };
    /// Reading by document.
    pub const STORED: Roles = Roles { filterable: false, sortable: false, stored: true };

    /// The union of both sets of roles.
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
#[non_exhaustive]
pub struct Field {
    /// Name: 1 to 255 bytes of UTF-8.
    pub name: String,
    /// Type of the values.
    pub ty: Type,
    /// The operations that the field supports.
    pub roles: Roles,
    /// A document may have several values (a set of them).
    pub multi: bool,
    /// A document may have no value.
    pub nullable: bool,
    /// Conditions scan a column instead of reading postings lists: see [`Field::scanned`].
    pub scanned: bool,
}

impl Field {
    /// A single-valued field that is required in every document.
    pub fn new(name: impl Into<String>, ty: Type, roles: Roles) -> Field {
        Field { name: name.into(), ty, roles, multi: false, nullable: false, scanned: false }
    }

    /// Whether two fields are equal except for [`Field::scanned`].
    pub(crate) fn equals_except_scanned(&self, other: &Field) -> bool {
        let Field { name, ty, roles, multi, nullable, scanned: _ } = self;
        (name, ty, roles) == (&other.name, &other.ty, &other.roles)
            && (*multi, *nullable) == (other.multi, other.nullable)
    }

    /// Allows several values per document, or none.
    pub fn multi(mut self) -> Field {
        self.multi = true;
        self.nullable = true;
        self
    }

    /// Allows documents without a value.
    pub fn nullable(mut self) -> Field {
        self.nullable = true;
        self
    }

    /// Stores a column of ordinals, which conditions scan, instead of postings lists per value.
    /// For a million documents, a sortable number then takes less than half the space, other
    /// numbers about three quarters. Use it for fields that are filtered by ranges, such as prices,
    /// or together with a selective condition on another field.
    ///
    /// A condition on the field alone scans the whole column: 30 to 80 us per million documents
    /// with AVX-512 VBMI, independent of the number of matches. Postings lists are faster for
    /// values with few documents. `in` scans once per run of consecutive values, at most about
    /// 1.6 ms in total.
    ///
    /// A sortable field keeps postings lists for its smallest and largest values (a sixteenth of
    /// the documents, at most 8,192, at either end), so that the first pages in either direction
    /// need no scan.
    ///
    /// The field must be filterable or sortable, and single-valued. Fields of 5 to 256 distinct
    /// values use a column scan by default. Partitions of at most 4,096 documents always have
    /// postings lists. Fields that documents are ordered by, and fields of a point, need neither.
    pub fn scanned(mut self) -> Field {
        self.scanned = true;
        self
    }
}

/// How payloads are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Payload {
    /// Uncompressed. Reads borrow the payload from the mapped file without a copy.
    #[default]
    Raw,
    /// zstd-compressed blocks of about 16 KiB, optionally with a dictionary trained on a sample of
    /// the partition's payloads.
    Zstd {
        /// zstd level, 1 to 19.
        level: i32,
        /// Train a dictionary of up to 64 KiB.
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

/// The fields, document order and payload storage of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    pub(crate) fields: Vec<Field>,
    pub(crate) dynamic: Option<Roles>,
    pub(crate) order: Vec<OrderBy>,
    pub(crate) payload: Payload,
    /// Pairs of fields indexed as points, by field number. The smaller number comes first; pairs
    /// are sorted by the larger one.
    pub(crate) points: Vec<[usize; 2]>,
}

/// The maximum number of fields of a schema.
pub const MAX_FIELDS: usize = 4096;

impl Schema {
    /// A schema with these fields. Errors: see [`Schema::add`].
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Result<Schema> {
        let mut schema = Schema::default();
        fields.into_iter().try_for_each(|field| schema.add(field))?;
        Ok(schema)
    }

    /// A dynamic schema: the first document with a new field adds it to the schema, with the type
    /// of its value and with `roles`. Such fields are nullable, and multi-valued unless `roles`
    /// includes sortable.
    pub fn dynamic(roles: Roles) -> Schema {
        Schema { dynamic: Some(roles), ..Schema::default() }
    }

    /// Adds a field. `InvalidArgument` for a duplicate or invalid name, contradictory properties,
    /// or more than [`MAX_FIELDS`] fields.
    pub fn add(&mut self, field: Field) -> Result<()> {
        let name = &field.name;
        if name.is_empty() || name.len() > 255 {
            let message = format!("a field's name has {} bytes; it may have 1 to 255", name.len());
            let start: String = name.chars().take(40).collect();
            return Err(Error::invalid(match start.is_empty() {
                true => message,
                false => format!("{message}: `{start}...`"),
            }));
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

    /// Sorts the documents of each partition by these fields; ties keep the order in which the
    /// documents were added. Queries ordered by the same keys, or by a prefix of them, stop
    /// early. The first key needs no column and no postings lists. `InvalidArgument` if a field is
    /// unknown or not sortable.
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

    /// Indexes two fields that queries use together, such as latitude and longitude, as points in
    /// a plane. A query with a range on both fields then visits few documents besides its matches,
    /// however many documents each range has alone. A condition on only one of the fields uses the
    /// points, too, but is slower than without them.
    ///
    /// Both fields must be single-valued, filterable, not sortable, and of a type other than string
    /// or bytes. A field can be part of one point only. Partitions of at most 4,096 documents, and
    /// those ordered by one of the fields, store no points. A merged partition has the points of
    /// all its inputs.
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

    /// [`Schema::point`] by field numbers.
    pub(crate) fn add_point(&mut self, pair: [usize; 2]) -> Result<()> {
        for i in pair {
            let Some(f) = self.fields.get(i) else {
                return Err(Error::invalid(format!("a point of field {i}, which there is not")));
            };
            let reason = match () {
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
            return Err(Error::invalid(format!("field `{}` {reason}", f.name)));
        }
        self.points.push([pair[0].min(pair[1]), pair[0].max(pair[1])]);
        self.points.sort_unstable_by_key(|pair| pair[1]);
        Ok(())
    }

    /// The first field of the point that contains `field`, and the position (0 or 1) of `field` in
    /// it; `None` if no point contains it.
    pub(crate) fn part_of_point(&self, field: usize) -> Option<(usize, usize)> {
        let part = |pair: &[usize; 2]| pair.iter().position(|other| *other == field);
        self.points.iter().find_map(|pair| Some((pair[0], part(pair)?)))
    }

    /// Adds those points of another schema whose fields exist here. `InvalidArgument` if a field
    /// is already part of a different point.
    pub(crate) fn merge_points(&mut self, other: &Schema) -> Result<()> {
        for [a, b] in other.points() {
            let pair = [a, b].map(|name| self.field(name).map(|(i, _)| i));
            let [Some(a), Some(b)] = pair else { continue };
            if !self.points.contains(&[a.min(b), a.max(b)]) {
                self.add_point([a, b])?;
            }
        }
        Ok(())
    }

    /// The pairs of fields indexed as points, by name. Within a pair, the field that was added
    /// first comes first.
    pub fn points(&self) -> impl Iterator<Item = [&str; 2]> {
        self.points.iter().map(|pair| pair.map(|i| self.fields[i].name.as_str()))
    }

    /// Sets how payloads are stored. An invalid zstd level is rejected when the first document is
    /// added to a builder.
    pub fn payload(mut self, payload: Payload) -> Schema {
        self.payload = payload;
        self
    }

    /// The fields, in the order they were added.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The document order; empty if documents keep the order in which they were added.
    pub fn order(&self) -> &[OrderBy] {
        &self.order
    }

    /// Whether documents may add fields: see [`Schema::dynamic`].
    pub fn is_dynamic(&self) -> bool {
        self.dynamic.is_some()
    }

    /// How payloads are stored.
    pub fn payload_form(&self) -> Payload {
        self.payload
    }

    /// The field with this name, and its number.
    pub fn field(&self, name: &str) -> Option<(usize, &Field)> {
        self.fields.iter().enumerate().find(|(_, f)| f.name == name)
    }

    /// The field that a condition names; `None` if the schema is dynamic and lacks it.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, with the names of others, if there is no such field or it is not
    /// filterable.
    pub fn filterable(&self, name: &str) -> Result<Option<&Field>> {
        self.with_role(name, "filterable", |roles| roles.filterable)
    }

    /// The field that an order names; `None` if the schema is dynamic and lacks it.
    ///
    /// # Errors
    ///
    /// As those of [`Schema::filterable`].
    pub fn sortable(&self, name: &str) -> Result<Option<&Field>> {
        self.with_role(name, "sortable", |roles| roles.sortable)
    }

    fn with_role(&self, name: &str, role: &str, has: fn(Roles) -> bool) -> Result<Option<&Field>> {
        match self.field(name) {
            Some((_, field)) if has(field.roles) => Ok(Some(field)),
            Some(_) => {
                let allowed = self.fields.iter().filter(|field| has(field.roles));
                let names: Vec<&str> = allowed.map(|field| field.name.as_str()).collect();
                let list = if names.is_empty() { "none".to_string() } else { list_names(&names) };
                let message = format!("field `{name}` is not {role}; {role} fields: {list}");
                Err(Error::invalid(message))
            }
            None if self.is_dynamic() => Ok(None),
            None => Err(self.unknown(name)),
        }
    }

    /// The error for a name that is not in the schema. It lists the field names, the most similar
    /// ones first.
    pub(crate) fn unknown(&self, name: &str) -> Error {
        // An untrusted name may be long, and the edit distance takes time proportional to the
        // product of both lengths.
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
