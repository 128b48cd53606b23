//! A figure for monitoring, common to all stores.

/// One figure of a store at one moment, in the form that monitoring systems expect. There is no
/// global registry: the program asks the store for its metrics when they are collected, and adds
/// labels of its own, such as the name of the store.
///
/// ```
/// use firndb::log::LogStore;
///
/// # let dir = std::env::temp_dir().join(format!("firndb-doc-metrics-{}", std::process::id()));
/// let store = LogStore::open(&dir)?;
/// store.put("key", "value")?;
/// for metric in store.stats().metrics() {
///     // The text format of Prometheus.
///     println!("# HELP {} {}", metric.name, metric.help);
///     println!("{}{{store=\"users\"}} {}", metric.name, metric.value);
/// }
/// # store.close()?;
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), firndb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Metric {
    /// Name by the conventions of Prometheus: with the unit, and `_total` for counters.
    pub name: &'static str,
    /// What the figure is.
    pub help: &'static str,
    /// Whether the figure only grows.
    pub kind: MetricKind,
    /// The figure.
    pub value: f64,
}

/// The kind of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum MetricKind {
    /// Grows from 0 on while the store is open.
    Counter,
    /// Can grow and shrink.
    Gauge,
}

impl Metric {
    /// A count since the store was opened.
    pub(crate) fn counter(name: &'static str, help: &'static str, value: u64) -> Metric {
        Metric { name, help, kind: MetricKind::Counter, value: value as f64 }
    }

    /// A size or a state.
    pub(crate) fn gauge(name: &'static str, help: &'static str, value: u64) -> Metric {
        Metric { name, help, kind: MetricKind::Gauge, value: value as f64 }
    }
}
