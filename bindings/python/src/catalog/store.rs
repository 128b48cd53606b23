//! `Catalog`.

use super::interrupt::run;
use super::origin::{Place, Switch};
use super::values;
use crate::error::Result;
use crate::gil::detached;
use firndb::catalog::{
    Catalog as Core, CleanOptions, PublishOptions, Published, StageOptions, Staged, Version,
};
use firndb::redact_url;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A catalog, without what `firndb.Catalog` adds in Python.
#[pyclass(subclass, frozen, module = "firndb._native")]
pub struct Catalog {
    place: Place,
    location: String,
}

impl Catalog {
    /// The catalog, whose calls fail once the switch is off.
    pub fn switched(&self, switch: &Switch) -> Core {
        self.place.catalog(switch.clone())
    }

    /// Runs a call that signals interrupt.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Core) -> firndb::Result<T> + Send,
    ) -> Result<T> {
        let switch = Switch::default();
        let catalog = self.switched(&switch);
        run(py, &switch, None, |_| call(catalog))
    }
}

/// Reads a version, or the newest.
fn find(catalog: &Core, name: &str, number: Option<u64>) -> firndb::Result<Version> {
    match number {
        Some(number) => catalog.version(name, number),
        None => catalog.newest(name),
    }
}

#[pymethods]
impl Catalog {
    #[new]
    #[pyo3(signature = (location, *, create = false))]
    fn new(py: Python<'_>, location: PathBuf, create: bool) -> Result<Catalog> {
        let is_remote = location.to_string_lossy().contains("://");
        let shown = location.to_string_lossy().into_owned();
        let open = || match location.to_str() {
            Some(place) if is_remote && create => firndb_remote::create(place),
            Some(place) if is_remote => firndb_remote::open(place),
            _ if create => Core::create(&location),
            _ => Core::open(&location),
        };
        let catalog = detached(py, open)?;
        Ok(Catalog { place: Place::new(catalog.origin().clone(), is_remote), location: shown })
    }

    /// Where the catalog is: a directory or a URL. Credentials in a URL are replaced by `***`.
    #[getter]
    fn location(&self) -> String {
        redact_url(&self.location)
    }

    /// The location with its credentials, for pickling.
    #[getter(_location)]
    fn whole_location(&self) -> &str {
        &self.location
    }

    /// The names that have been published, sorted.
    ///
    /// Raises:
    ///     IoError: the file system or the network failed.
    fn names(&self, py: Python<'_>) -> Result<Vec<String>> {
        self.call(py, |catalog| catalog.names())
    }

    /// The version numbers of a name, ascending. Numbers of removed versions are missing.
    ///
    /// Raises:
    ///     NotFoundError: nothing is published under the name.
    fn versions(&self, py: Python<'_>, name: &str) -> Result<Vec<u64>> {
        self.call(py, |catalog| catalog.versions(name))
    }

    /// Removes the pin of a version. Not an error if the version is not pinned.
    fn unpin(&self, py: Python<'_>, name: &str, number: u64) -> Result<()> {
        self.call(py, |catalog| catalog.unpin(name, number))
    }

    /// The numbers of the pinned versions of a name, ascending.
    fn pins(&self, py: Python<'_>, name: &str) -> Result<Vec<u64>> {
        self.call(py, |catalog| catalog.pins(name))
    }

    /// Pins a version: `clean` keeps it until it is unpinned.
    ///
    /// Args:
    ///     name: the name.
    ///     number: the number of the version.
    ///     note: the reason, stored with the pin.
    ///
    /// Raises:
    ///     NotFoundError: the version does not exist, or is being removed.
    ///     AlreadyExistsError: it is pinned already.
    #[pyo3(signature = (name, number, note = ""))]
    fn pin(&self, py: Python<'_>, name: &str, number: u64, note: &str) -> Result<()> {
        self.call(py, |catalog| catalog.pin(name, number, note))
    }

    /// A version, or the newest, as a dictionary.
    fn _version<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        number: Option<u64>,
    ) -> Result<Bound<'py, PyAny>> {
        let version = self.call(py, |catalog| find(&catalog, name, number))?;
        values::version(py, &version)
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments of a function in Python")]
    fn _publish<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        path: PathBuf,
        labels: BTreeMap<String, String>,
        verify: bool,
        if_changed: bool,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let switch = Switch::default();
        let catalog = self.switched(&switch);
        let published = run(py, &switch, progress, |meter| {
            let progress = |done, total| meter.set(done, total);
            let options = PublishOptions::new().labels(labels).verify(verify).progress(&progress);
            match if_changed {
                true => catalog.publish_if_changed(name, &path, &options),
                false => catalog.publish(name, &path, &options).map(Some),
            }
        })?;
        values::published(py, published.as_ref())
    }

    fn _stage<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        path: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let switch = Switch::default();
        let catalog = self.switched(&switch);
        let staged = run(py, &switch, progress, |meter| {
            let progress = |done, total| meter.set(done, total);
            catalog.stage(name, &path, &StageOptions::new().progress(&progress))
        })?;
        values::staged(py, &staged)
    }

    fn _publish_staged<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        staged: Vec<String>,
        labels: BTreeMap<String, String>,
        verify: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let published: Published = self.call(py, |catalog| {
            let staged: Vec<Staged> =
                staged.iter().map(|line| line.parse()).collect::<firndb::Result<_>>()?;
            let options = PublishOptions::new().labels(labels).verify(verify);
            catalog.publish_staged(name, &staged, &options)
        })?;
        values::published(py, Some(&published))
    }

    fn _rollback<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        to: u64,
        labels: BTreeMap<String, String>,
        verify: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let published = self.call(py, |catalog| {
            let options = PublishOptions::new().labels(labels).verify(verify);
            catalog.rollback(name, to, &options)
        })?;
        values::published(py, Some(&published))
    }

    fn _clean<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        keep: usize,
        grace: Duration,
        dry_run: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let options = CleanOptions::new().keep(keep).grace(grace).dry_run(dry_run);
        let cleaned = self.call(py, |catalog| catalog.clean(name, &options))?;
        values::cleaned(py, &cleaned)
    }

    fn _verify(
        &self,
        py: Python<'_>,
        name: &str,
        number: Option<u64>,
        progress: Option<Py<PyAny>>,
    ) -> Result<(u64, u64, u64)> {
        let switch = Switch::default();
        let catalog = self.switched(&switch);
        let done = run(py, &switch, progress, |meter| {
            let version = find(&catalog, name, number)?;
            meter.set_total(Some(version.bytes()));
            catalog.verify(&version, |file| meter.add(file.bytes))
        })?;
        Ok((done.files, done.bytes, done.records))
    }

    fn _diff<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        before: u64,
        after: Option<u64>,
    ) -> Result<Bound<'py, PyAny>> {
        let diff = self.call(py, |catalog| {
            let before = catalog.version(name, before)?;
            Ok(before.diff(&find(&catalog, name, after)?))
        })?;
        values::diff(py, &diff)
    }

    fn _pull<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        to: PathBuf,
        number: Option<u64>,
        threads: usize,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let switch = Switch::default();
        let catalog = self.switched(&switch);
        let version = run(py, &switch, progress, |meter| {
            let version = find(&catalog, name, number)?;
            meter.set_total(Some(version.bytes()));
            catalog.pull(&version, &to, threads, &|bytes| meter.add(bytes))?;
            Ok(version)
        })?;
        values::version(py, &version)
    }
}
