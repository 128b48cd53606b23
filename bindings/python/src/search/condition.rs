//! The query builder: fields, conditions and sort keys.

use crate::search::value::{from_python, prefixed};
use firndb::search::query::{asc, desc};
use firndb::search::{Filter, MAX_DEPTH, Op, OrderBy, Value, parse_filter};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

const COMBINE: &str = "combine conditions with & (and), | (or) and ~ (not), each in parentheses: \
                       (F.a > 1) & (F.b < 3); a range is F.a.between(1, 3)";

/// A field in a condition or an order, such as `F.price`.
///
/// Comparing it with a value makes a `Condition`. A document matches if one of its values of the
/// field does; a document without a value matches no comparison.
///
/// >>> from firndb import F
/// >>> (F.price < 10) & F.city.in_(["Oslo", "Bergen"])
/// price < 10 and city in ('Oslo', 'Bergen')
/// >>> F["order by"] != "x"
/// not "order by" = 'x'
#[pyclass(frozen, module = "firndb")]
pub struct FieldRef {
    pub name: String,
}

/// A condition on documents. Make it with `F`, or from its text form.
///
/// Conditions are combined with `&`, `|` and `~`. The `repr` is the text form.
///
/// Args:
///     text: the text form, as in `docs/search.md`.
///
/// Raises:
///     InvalidArgumentError: the text is not a condition.
///
/// >>> import firndb
/// >>> firndb.Condition("price < 10") | firndb.F.sold.exists()
/// price < 10 or exists sold
#[pyclass(frozen, module = "firndb")]
#[derive(Clone)]
pub struct Condition {
    pub filter: Filter,
    /// Levels of nesting, which are limited because conditions are read by recursion.
    depth: usize,
}

/// A sort key of an order, made by `F.price.asc()` or `F.price.desc()`.
#[pyclass(frozen, module = "firndb")]
pub struct Order {
    pub key: OrderBy,
}

fn leaf(filter: Filter) -> Condition {
    Condition { filter, depth: 1 }
}

#[pymethods]
impl FieldRef {
    #[new]
    fn new(name: String) -> FieldRef {
        FieldRef { name }
    }

    /// The name of the field.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Condition> {
        let value = self.literal(other)?;
        let (op, positive) = match op {
            CompareOp::Eq => (Op::Eq, true),
            CompareOp::Ne => (Op::Eq, false),
            CompareOp::Lt => (Op::Lt, true),
            CompareOp::Le => (Op::Lte, true),
            CompareOp::Gt => (Op::Gt, true),
            CompareOp::Ge => (Op::Gte, true),
        };
        let filter = Filter::Compare(self.name.clone(), op, value);
        if positive { Ok(leaf(filter)) } else { leaf(filter).not() }
    }

    /// Whether one of the field's values is in `values`, an iterable. Nothing is in an empty one.
    fn in_(&self, values: &Bound<'_, PyAny>) -> PyResult<Condition> {
        if values.is_instance_of::<pyo3::types::PyString>() {
            let name = &self.name;
            let message = format!("field `{name}`: in_ takes several values, such as a list");
            return Err(PyTypeError::new_err(message));
        }
        let values = values.try_iter()?.map(|value| self.literal(&value?));
        Ok(leaf(Filter::In(self.name.clone(), values.collect::<PyResult<_>>()?)))
    }

    /// Whether one of the field's values is from `low` to `high`, both included.
    fn between(&self, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> PyResult<Condition> {
        let (low, high) = (self.literal(low)?, self.literal(high)?);
        Ok(leaf(Filter::Between(self.name.clone(), low, high)))
    }

    /// Whether a string or bytes field has a value that starts with `prefix`.
    fn startswith(&self, prefix: &Bound<'_, PyAny>) -> PyResult<Condition> {
        match self.literal(prefix)? {
            value @ (Value::Str(_) | Value::Bytes(_)) => {
                Ok(leaf(Filter::Prefix(self.name.clone(), value)))
            }
            _ => {
                let message = format!("field `{}`: a prefix is a str or bytes", self.name);
                Err(PyTypeError::new_err(message))
            }
        }
    }

    /// Whether the document has a value for the field. `~F.price.exists()` finds those without.
    fn exists(&self) -> Condition {
        leaf(Filter::Exists(self.name.clone()))
    }

    /// The sort key with the smallest value first. Documents without a value come last.
    fn asc(&self) -> Order {
        Order { key: asc(&self.name) }
    }

    /// The sort key with the largest value first. Documents without a value come last.
    fn desc(&self) -> Order {
        Order { key: desc(&self.name) }
    }

    fn __and__(&self, other: &Bound<'_, PyAny>) -> PyResult<Condition> {
        self.is_true().__and__(other)
    }

    fn __rand__(&self, other: &Bound<'_, PyAny>) -> PyResult<Condition> {
        self.is_true().__rand__(other)
    }

    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Condition> {
        self.is_true().__or__(other)
    }

    fn __ror__(&self, other: &Bound<'_, PyAny>) -> PyResult<Condition> {
        self.is_true().__ror__(other)
    }

    fn __invert__(&self) -> PyResult<Condition> {
        self.is_true().not()
    }

    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(format!("a field has no truth value: {COMBINE}")))
    }

    fn __contains__(&self, _value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = &self.name;
        let message =
            format!("write F.{name} == value: it holds if one of several values is equal");
        Err(PyTypeError::new_err(message))
    }

    fn __repr__(&self) -> String {
        asc(&self.name).to_string()
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, pyo3::types::PyType>, (String,))> {
        Ok((py.get_type::<FieldRef>(), (self.name.clone(),)))
    }
}

impl FieldRef {
    /// The condition that a field of type `bool` is true.
    pub fn is_true(&self) -> Condition {
        leaf(Filter::Compare(self.name.clone(), Op::Eq, Value::Bool(true)))
    }

    /// The value that the field is compared with.
    fn literal(&self, object: &Bound<'_, PyAny>) -> PyResult<Value> {
        let name = &self.name;
        if object.is_instance_of::<FieldRef>() {
            return Err(PyTypeError::new_err(format!(
                "field `{name}` is compared with a value, not with another field"
            )));
        }
        if object.is_instance_of::<Condition>() {
            return Err(PyTypeError::new_err(format!(
                "field `{name}` is compared with a condition: {COMBINE}"
            )));
        }
        match from_python(object) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(PyTypeError::new_err(format!(
                "field `{name}` is not compared with None: ~F.{name}.exists() finds documents \
                 without a value"
            ))),
            Err(error) => Err(prefixed(object.py(), &error, &format!("field `{name}`"))),
        }
    }
}

#[pymethods]
impl Condition {
    #[new]
    fn new(text: &str) -> crate::error::Result<Condition> {
        let filter = parse_filter(text, None).map_err(|e| super::query::in_text(text, &e))?;
        // The text form allows less nesting than conditions may have.
        let depth = depth_of(&filter);
        Ok(Condition { filter, depth })
    }

    fn __and__(&self, other: &Bound<'_, PyAny>) -> PyResult<Condition> {
        all_of_list(vec![self.clone(), condition(other)?])
    }

    fn __rand__(&self, other: &Bound<'_, PyAny>) -> PyResult<Condition> {
        all_of_list(vec![condition(other)?, self.clone()])
    }

    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Condition> {
        any_of_list(vec![self.clone(), condition(other)?])
    }

    fn __ror__(&self, other: &Bound<'_, PyAny>) -> PyResult<Condition> {
        any_of_list(vec![condition(other)?, self.clone()])
    }

    fn __invert__(&self) -> PyResult<Condition> {
        self.not()
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<bool> {
        let other = other.cast::<Condition>().ok().map(|other| other.get());
        match (op, other) {
            (CompareOp::Eq, Some(other)) => Ok(self.filter == other.filter),
            (CompareOp::Ne, Some(other)) => Ok(self.filter != other.filter),
            _ => Err(PyTypeError::new_err(format!("a condition is not compared: {COMBINE}"))),
        }
    }

    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err(format!("a condition has no truth value: {COMBINE}")))
    }

    fn __repr__(&self) -> String {
        self.filter.to_string()
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, pyo3::types::PyType>, (String,))> {
        Ok((py.get_type::<Condition>(), (self.filter.to_string(),)))
    }
}

impl Condition {
    fn not(&self) -> PyResult<Condition> {
        nested(Filter::Not(Box::new(self.filter.clone())), self.depth)
    }
}

#[pymethods]
impl Order {
    /// The name of the field.
    #[getter]
    fn field(&self) -> &str {
        &self.key.field
    }

    /// Whether the largest value is first.
    #[getter]
    fn descending(&self) -> bool {
        self.key.descending
    }

    fn __eq__(&self, other: &Order) -> bool {
        self.key == other.key
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        static STATE: std::sync::LazyLock<RandomState> = std::sync::LazyLock::new(RandomState::new);
        STATE.hash_one((&self.key.field, self.key.descending))
    }

    fn __repr__(&self) -> String {
        self.key.to_string()
    }
}

/// A condition that holds if all of these hold; without any, for every document.
///
/// >>> from firndb import F, all_of
/// >>> all_of(F.price < 10, F.city == "Oslo", F.rooms > 1)
/// price < 10 and city = 'Oslo' and rooms > 1
#[pyfunction]
#[pyo3(signature = (*conditions))]
pub fn all_of(conditions: &Bound<'_, PyTuple>) -> PyResult<Condition> {
    all_of_list(conditions.iter().map(|other| condition(&other)).collect::<PyResult<_>>()?)
}

/// A condition that holds if one of these holds; without any, for no document.
///
/// >>> from firndb import F, any_of
/// >>> any_of(F.city == "Oslo", F.city.startswith("B"))
/// city = 'Oslo' or city prefix 'B'
#[pyfunction]
#[pyo3(signature = (*conditions))]
pub fn any_of(conditions: &Bound<'_, PyTuple>) -> PyResult<Condition> {
    any_of_list(conditions.iter().map(|other| condition(&other)).collect::<PyResult<_>>()?)
}

fn all_of_list(conditions: Vec<Condition>) -> PyResult<Condition> {
    let depth = conditions.iter().map(|condition| condition.depth).max().unwrap_or(0);
    let mut parts = Vec::with_capacity(conditions.len());
    for condition in conditions {
        match condition.filter {
            Filter::And(inner) => parts.extend(inner),
            filter => parts.push(filter),
        }
    }
    match parts.len() {
        0 => Ok(leaf(Filter::All)),
        1 => Ok(Condition { filter: parts.swap_remove(0), depth }),
        _ => nested(Filter::And(parts), depth),
    }
}

fn any_of_list(conditions: Vec<Condition>) -> PyResult<Condition> {
    let depth = conditions.iter().map(|condition| condition.depth).max().unwrap_or(0);
    let mut parts = Vec::with_capacity(conditions.len());
    for condition in conditions {
        match condition.filter {
            Filter::Or(inner) => parts.extend(inner),
            filter => parts.push(filter),
        }
    }
    match parts.len() {
        0 => leaf(Filter::All).not(),
        1 => Ok(Condition { filter: parts.swap_remove(0), depth }),
        _ => nested(Filter::Or(parts), depth),
    }
}

/// A condition whose parts have up to `depth` levels.
fn nested(filter: Filter, depth: usize) -> PyResult<Condition> {
    let depth = match &filter {
        // Parts of the same kind were joined, so they add no level.
        Filter::And(_) | Filter::Or(_) => depth_of(&filter),
        _ => depth + 1,
    };
    if depth >= MAX_DEPTH {
        let message = format!("the condition is nested more than {} deep", MAX_DEPTH - 1);
        return Err(PyValueError::new_err(message));
    }
    Ok(Condition { filter, depth })
}

/// Levels of a filter, which has fewer than about twice [`MAX_DEPTH`].
fn depth_of(filter: &Filter) -> usize {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => 1 + parts.iter().map(depth_of).max().unwrap_or(0),
        Filter::Not(part) => 1 + depth_of(part),
        _ => 1,
    }
}

/// The condition of an operand.
fn condition(object: &Bound<'_, PyAny>) -> PyResult<Condition> {
    if let Ok(condition) = object.cast::<Condition>() {
        return Ok(condition.get().clone());
    }
    if let Ok(field) = object.cast::<FieldRef>() {
        return Ok(field.get().is_true());
    }
    let name = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("a condition is combined with {name}: {COMBINE}")))
}
