//! Options of a store and of a write, from the arguments of Python.

use crate::bytes::to_bytes;
use crate::error::Result;
use firndb::KeyRange;
use firndb::log::{Access, Durability, Expiry, Options, WriteOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::ops;
use std::time::Duration;

/// What `mode` says.
pub fn of_mode(mode: &str) -> PyResult<Options> {
    match mode {
        "r" => Ok(Options::new().read_only(true).create(false)),
        "w" => Ok(Options::new().create(false)),
        "c" => Ok(Options::new()),
        "x" => Ok(Options::new().create_new(true)),
        _ => Err(PyValueError::new_err(format!(
            "mode is {mode:?}; give 'r' to read, 'w' to write to a store that exists, 'c' to \
             create it if necessary, or 'x' to create a new one"
        ))),
    }
}

/// What `durability` says.
pub fn of_durability(durability: &str) -> PyResult<Durability> {
    match durability {
        "os" => Ok(Durability::Os),
        "sync" => Ok(Durability::Sync),
        _ => Err(PyValueError::new_err(format!(
            "durability is {durability:?}; give 'os' (survives a crash of the process) or 'sync' \
             (survives power loss)"
        ))),
    }
}

/// What `access` says.
pub fn of_access(access: &str) -> PyResult<Access> {
    match access {
        "map" => Ok(Access::Map),
        "buffered" => Ok(Access::Buffered),
        _ => Err(PyValueError::new_err(format!(
            "access is {access:?}; give 'map' (through memory maps) or 'buffered' (with reads)"
        ))),
    }
}

/// The keys from `start` on and before `end`; `None` is no bound.
pub fn key_range(
    start: Option<Bound<'_, PyAny>>,
    end: Option<Bound<'_, PyAny>>,
) -> Result<KeyRange> {
    let all = || ops::Bound::<Vec<u8>>::Unbounded;
    let start = start.map(|key| to_bytes(&key).map(|key| key.to_vec())).transpose()?;
    let end = end.map(|key| to_bytes(&key).map(|key| key.to_vec())).transpose()?;
    Ok(KeyRange::new(
        start.map_or_else(all, ops::Bound::Included),
        end.map_or_else(all, ops::Bound::Excluded),
    ))
}

/// The arguments `ttl`, `expiry` and `sync` of a write.
#[derive(Default)]
pub struct WriteArgs<'py> {
    pub ttl: Option<Bound<'py, PyAny>>,
    pub expiry: Option<Bound<'py, PyAny>>,
    pub sync: Option<bool>,
}

impl WriteArgs<'_> {
    pub fn options(&self) -> Result<WriteOptions> {
        let mut options = WriteOptions::new();
        if let Some(sync) = self.sync {
            options = options.durability(if sync { Durability::Sync } else { Durability::Os });
        }
        match (&self.ttl, &self.expiry) {
            (Some(_), Some(_)) => Err(PyValueError::new_err("give ttl or expiry, not both").into()),
            (Some(ttl), None) => Ok(options.ttl(duration(ttl)?)),
            (None, Some(time)) => Ok(options.expiry(expiry(time)?)),
            (None, None) => Ok(options),
        }
    }
}

/// A time to live: seconds or a `timedelta`.
pub fn duration(ttl: &Bound<'_, PyAny>) -> Result<Duration> {
    let types = Types::get(ttl.py())?;
    let seconds = if ttl.is_instance(types.timedelta.bind(ttl.py()))? {
        ttl.call_method0("total_seconds")?.extract()?
    } else {
        ttl.extract::<f64>().map_err(|_| wrong(ttl, "ttl is a number of seconds or a timedelta"))?
    };
    Ok(Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("ttl is {seconds} seconds; give 0 or more")))?)
}

/// A time of expiry: an aware `datetime`. Times before 1970 count as 1970.
pub fn expiry(time: &Bound<'_, PyAny>) -> Result<Expiry> {
    let (py, types) = (time.py(), Types::get(time.py())?);
    if !time.is_instance(types.datetime.bind(py))? {
        return Err(wrong(time, "expiry is a datetime").into());
    }
    if time.call_method0("utcoffset")?.is_none() {
        let message = "expiry is a datetime without a time zone; give one with a time zone, such \
                       as datetime.now(timezone.utc) + timedelta(hours=1)";
        return Err(PyValueError::new_err(message).into());
    }
    let since = time.sub(types.epoch.bind(py))?;
    let millis: i64 =
        since.call_method1("__floordiv__", (types.millisecond.bind(py),))?.extract()?;
    Ok(Expiry::At(u64::try_from(millis).unwrap_or(0)))
}

/// A time of expiry as a `datetime` in UTC, or `None`. Times after the year 9999, which a
/// `datetime` cannot express, become the last one that it can.
pub fn datetime(py: Python<'_>, expiry: Expiry) -> Result<Option<Bound<'_, PyAny>>> {
    let Some(millis) = expiry.millis() else { return Ok(None) };
    let types = Types::get(py)?;
    let since = PyDict::new(py);
    since.set_item("milliseconds", millis)?;
    let time = types.timedelta.bind(py).call((), Some(&since));
    match time.and_then(|since| types.epoch.bind(py).add(since)) {
        Ok(time) => Ok(Some(time)),
        Err(_) => Ok(Some(types.last.bind(py).clone())),
    }
}

fn wrong(object: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    match object.get_type().name() {
        Ok(name) => PyTypeError::new_err(format!("{expected}, not {name}")),
        Err(error) => error,
    }
}

/// What is needed of the module `datetime`.
struct Types {
    datetime: Py<PyAny>,
    timedelta: Py<PyAny>,
    /// 1970-01-01 UTC.
    epoch: Py<PyAny>,
    millisecond: Py<PyAny>,
    /// The last time that a `datetime` can express.
    last: Py<PyAny>,
}

impl Types {
    fn get(py: Python<'_>) -> PyResult<&Types> {
        static TYPES: PyOnceLock<Types> = PyOnceLock::new();
        TYPES.get_or_try_init(py, || {
            let module = py.import("datetime")?;
            let (datetime, timedelta) = (module.getattr("datetime")?, module.getattr("timedelta")?);
            let utc = PyDict::new(py);
            utc.set_item("tzinfo", module.getattr("timezone")?.getattr("utc")?)?;
            let epoch = datetime.call((1970, 1, 1), Some(&utc))?;
            let last = datetime.getattr("max")?.call_method("replace", (), Some(&utc))?;
            Ok(Types {
                millisecond: timedelta.call1((0, 0, 1000))?.unbind(),
                datetime: datetime.unbind(),
                timedelta: timedelta.unbind(),
                epoch: epoch.unbind(),
                last: last.unbind(),
            })
        })
    }
}
