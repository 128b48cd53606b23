//! An immutable view of a collection.

use crate::error::Result;
use crate::gil::detached;
use crate::json;
use crate::search::hits::Hits;
use crate::search::query::{deadline, filter_of, number, order_of, query_of};
use crate::search::schema::Schema;
use crate::search::task;
use crate::search::value::{to_optional, to_python, to_tuple};
use firndb::search::{Aggregate, Facet, GroupBy, Number, PageToken, Query, Reader};
use firndb_ingest::results::{explain_to_json, keep_largest};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// The native part of `firndb.CollectionReader`.
#[pyclass(subclass, frozen, module = "firndb._native")]
pub struct CollectionReader {
    pub reader: Reader,
}

#[pymethods]
impl CollectionReader {
    #[new]
    fn new(other: &Bound<'_, CollectionReader>) -> CollectionReader {
        CollectionReader { reader: other.get().reader.clone() }
    }

    fn __len__(&self) -> usize {
        self.reader.len() as usize
    }

    fn _schema(&self) -> Schema {
        Schema { schema: self.reader.schema().clone() }
    }

    /// Name, documents and bytes of each partition.
    fn _partitions(&self) -> Vec<(String, u32, u64)> {
        let partitions = self.reader.partitions().into_iter();
        partitions.map(|part| (part.name, part.documents, part.bytes)).collect()
    }

    /// A reader of some of the partitions.
    fn _with_partitions(&self, py: Python<'_>, names: Vec<String>) -> Result<CollectionReader> {
        let reader = detached(py, || self.reader.with_partitions(&names))?;
        Ok(CollectionReader { reader })
    }

    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    fn _search(
        &self,
        py: Python<'_>,
        query: Option<&Bound<'_, PyAny>>,
        fields: Option<&Bound<'_, PyAny>>,
        payload: bool,
        limit: Option<&Bound<'_, PyAny>>,
        skip: Option<&Bound<'_, PyAny>>,
        order_by: Option<&Bound<'_, PyAny>>,
        after: Option<&str>,
        count: bool,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> Result<Hits> {
        let mut query = self.page_query(query, limit, skip, order_by, after)?;
        query.count = count;
        let fields = fields.map(super::query::names_of).transpose()?;
        Hits::search(py, self.within(timeout)?, &query, fields, payload)
    }

    fn _count(
        &self,
        py: Python<'_>,
        query: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> Result<u64> {
        let filter = filter_of(query, self.reader.schema())?;
        let reader = self.within(timeout)?;
        detached(py, || reader.count(&filter))
    }

    /// For each field: values and counts, the number of distinct values, that of documents without
    /// one.
    fn _facets<'py>(
        &self,
        py: Python<'py>,
        query: Option<&Bound<'py, PyAny>>,
        fields: &Bound<'py, PyAny>,
        top: Option<&Bound<'py, PyAny>>,
        disjunctive: bool,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyList>> {
        let filter = filter_of(query, self.reader.schema())?;
        let top = number(top, "top")?.map_or(usize::MAX, |top| top as usize);
        let facet = |name| {
            let facet = Facet::new(name).top(top);
            if disjunctive { facet.disjunctive() } else { facet }
        };
        let facets: Vec<Facet> = super::query::names_of(fields)?.into_iter().map(facet).collect();
        let reader = self.within(timeout)?;
        let found = detached(py, || reader.facets(&filter, &facets))?;
        let list = PyList::empty(py);
        for counts in found {
            let values = PyList::empty(py);
            for (value, count) in &counts.values {
                values.append((to_python(py, value)?, count))?;
            }
            list.append((counts.field, values, counts.distinct, counts.missing))?;
        }
        Ok(list)
    }

    /// For each group: the key, the count, the aggregates.
    fn _group<'py>(
        &self,
        py: Python<'py>,
        query: Option<&Bound<'py, PyAny>>,
        by: &Bound<'py, PyAny>,
        aggregates: &Bound<'py, PyAny>,
        top: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyList>> {
        let filter = filter_of(query, self.reader.schema())?;
        let by = GroupBy::new(super::query::names_of(by)?)
            .aggregates(super::query::names_of(aggregates)?);
        let top = number(top, "top")?;
        let reader = self.within(timeout)?;
        let groups = detached(py, || {
            let mut groups = reader.group_by(&filter, &by)?;
            if let Some(top) = top {
                keep_largest(&mut groups, top as usize);
            }
            Ok(groups)
        })?;
        let list = PyList::empty(py);
        for group in groups {
            let aggregates = group.aggregates.iter().map(|found| aggregate(py, found));
            let aggregates = aggregates.collect::<PyResult<Vec<_>>>()?;
            list.append((to_tuple(py, &group.key)?, group.count, aggregates))?;
        }
        Ok(list)
    }

    fn _aggregate<'py>(
        &self,
        py: Python<'py>,
        query: Option<&Bound<'py, PyAny>>,
        field: &Bound<'py, PyAny>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyTuple>> {
        let filter = filter_of(query, self.reader.schema())?;
        let names = super::query::names_of(field)?;
        let [name] = names.as_slice() else {
            return Err(PyTypeError::new_err("one field is aggregated at a time").into());
        };
        let reader = self.within(timeout)?;
        let found = detached(py, || reader.aggregate(&filter, name))?;
        Ok(aggregate(py, &found)?)
    }

    /// The figures of an explanation, and its text.
    fn _explain<'py>(
        &self,
        py: Python<'py>,
        query: Option<&Bound<'py, PyAny>>,
        limit: Option<&Bound<'py, PyAny>>,
        order_by: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> Result<(Bound<'py, PyAny>, String)> {
        let query = self.page_query(query, limit, None, order_by, None)?;
        let reader = self.within(timeout)?;
        let explain = detached(py, || reader.explain(&query))?;
        Ok((json::object(py, &explain_to_json(&explain))?, explain.to_string()))
    }

    /// Verifies all partitions, and reports the bytes that were verified.
    fn _verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> Result<(u64, u64, u64)> {
        let reader = &self.reader;
        task::run(py, progress, |task| {
            let partitions = reader.partitions();
            task.meter.set_total(Some(partitions.iter().map(|part| part.bytes).sum()));
            let (mut files, mut bytes, mut records) = (0, 0, 0);
            for part in &partitions {
                task.check()?;
                let verified = reader.with_partitions(&[&part.name])?.verify()?;
                files += verified.files;
                bytes += verified.bytes;
                records += verified.records;
                task.meter.add(verified.bytes);
            }
            Ok((files, bytes, records))
        })
    }

    /// Prepares everything that queries use.
    fn _warm(&self, py: Python<'_>) -> Result<()> {
        task::run(py, None, |task| self.reader.with_cancel(task.cancel.clone()).warm())
    }

    /// Memory of bundles of small partitions, in bytes.
    fn _bundle_memory(&self) -> u64 {
        self.reader.bundle_memory()
    }

    fn __reduce__(&self) -> Result<()> {
        let message = "a reader cannot be pickled: pickle the collection, which opens its newest \
                       version";
        Err(PyTypeError::new_err(message).into())
    }
}

impl CollectionReader {
    /// A reader with a time limit.
    fn within(&self, timeout: Option<&Bound<'_, PyAny>>) -> Result<Reader> {
        Ok(match deadline(timeout)? {
            Some(deadline) => self.reader.with_deadline(deadline),
            None => self.reader.clone(),
        })
    }

    /// The query of a page. What is given apart from the text takes precedence.
    fn page_query(
        &self,
        query: Option<&Bound<'_, PyAny>>,
        limit: Option<&Bound<'_, PyAny>>,
        skip: Option<&Bound<'_, PyAny>>,
        order_by: Option<&Bound<'_, PyAny>>,
        after: Option<&str>,
    ) -> Result<Query> {
        let schema = self.reader.schema();
        let mut query = query_of(query, schema)?;
        if let Some(order) = order_by {
            query.order = order_of(order, Some(schema))?;
        }
        query.limit = number(limit, "limit")?.or(query.limit);
        if let Some(token) = after {
            query.after = Some(PageToken::parse(token)?);
            query.skip = 0;
        }
        query.skip = number(skip, "skip")?.unwrap_or(query.skip);
        Ok(query)
    }
}

/// Count, smallest and largest value, sum and average.
fn aggregate<'py>(py: Python<'py>, found: &Aggregate) -> PyResult<Bound<'py, PyTuple>> {
    let sum = match found.sum {
        None => py.None().into_bound(py),
        Some(Number::Int(sum)) => sum.into_pyobject(py)?.into_any(),
        Some(Number::Float(sum)) => sum.into_pyobject(py)?.into_any(),
    };
    let (min, max) = (to_optional(py, found.min.as_ref())?, to_optional(py, found.max.as_ref())?);
    (found.count, min, max, sum, found.avg).into_pyobject(py)
}
