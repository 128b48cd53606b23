//! The figures of one moment: those of the server's state, and of all stores.

use super::stores;
use crate::app::{App, Phase};
use firndb::Metric;
use firndb::MetricKind;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// One figure, without labels.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// The name with its prefix and unit, and with `_total` for counters.
    pub name: &'static str,
    /// What the figure is.
    pub help: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// The figure.
    pub value: f64,
}

impl Figure {
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Figure {
        Figure { name, help, is_counter: false, value }
    }

    pub fn counter(name: &'static str, help: &'static str, value: f64) -> Figure {
        Figure { name, help, is_counter: true, value }
    }
}

impl From<Metric> for Figure {
    fn from(metric: Metric) -> Figure {
        let Metric { name, help, kind, value, .. } = metric;
        Figure { name, help, is_counter: kind == MetricKind::Counter, value }
    }
}

type Labels = Vec<(&'static str, String)>;

/// All figures of a moment, grouped by name, as the text format requires.
#[derive(Debug, Default)]
pub(super) struct Figures {
    families: BTreeMap<&'static str, Family>,
}

#[derive(Debug)]
struct Family {
    help: &'static str,
    is_counter: bool,
    samples: Vec<(Labels, f64)>,
}

impl Figures {
    /// Asks the server and all stores.
    pub fn of(app: &App, uptime: Duration) -> Figures {
        let mut figures = Figures::default();
        figures.add_server(app, uptime);
        for entry in app.stores.all() {
            let kind = entry.kind().name();
            figures.add_store(&entry.name, kind, || stores::figures(&entry));
        }
        figures
    }

    fn add(&mut self, figure: &Figure, labels: Labels) {
        let Figure { name, help, is_counter, value } = *figure;
        let new = || Family { help, is_counter, samples: Vec::new() };
        self.families.entry(name).or_insert_with(new).samples.push((labels, value));
    }

    fn add_server(&mut self, app: &App, uptime: Duration) {
        let (running, waiting) = app.queries();
        for figure in [
            Figure::gauge("firndb_queries_running", "Queries that run", running as f64),
            Figure::gauge("firndb_queries_waiting", "Queries that wait", waiting as f64),
            Figure::gauge(
                "firndb_body_bytes",
                "Memory of the bodies of requests and responses",
                app.memory.used() as f64,
            ),
            Figure::gauge(
                "firndb_uptime_seconds",
                "Seconds since the server was started",
                uptime.as_secs_f64(),
            ),
            Figure::gauge("firndb_stores", "Stores that are served", app.stores.all().len() as f64),
        ] {
            self.add(&figure, Labels::new());
        }
        let version = env!("CARGO_PKG_VERSION").to_string();
        let build = Figure::gauge("firndb_build_info", "The version of the server", 1.0);
        self.add(&build, vec![("version", version)]);
        let current = app.phase();
        for phase in [Phase::Starting, Phase::Ready, Phase::Draining] {
            let is_current = f64::from(u8::from(phase == current));
            let figure = Figure::gauge("firndb_phase", "What the server is doing", is_current);
            self.add(&figure, vec![("phase", phase.name().to_string())]);
        }
    }

    /// Adds the figures of a store. If they cannot be had, those of the other stores still can:
    /// `firndb_store_up` is 0 then.
    fn add_store(
        &mut self,
        name: &str,
        kind: &'static str,
        ask: impl FnOnce() -> firndb::Result<Vec<Figure>>,
    ) {
        let labels = || vec![("store", name.to_string()), ("kind", kind.to_string())];
        let figures = match catch_unwind(AssertUnwindSafe(ask)) {
            Ok(Ok(figures)) => Some(figures),
            Ok(Err(error)) => {
                tracing::error!(store = name, %error, "cannot get the figures of the store");
                None
            }
            Err(_) => {
                tracing::error!(store = name, "a bug prevents the figures of the store");
                None
            }
        };
        let up = f64::from(u8::from(figures.is_some()));
        let help = "Whether the figures of the store could be had";
        self.add(&Figure::gauge("firndb_store_up", help, up), labels());
        for figure in figures.iter().flatten() {
            self.add(figure, labels());
        }
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, family) in &self.families {
            // The encoder appends `_total` itself.
            let (name, kind) = match family.is_counter {
                true => (name.strip_suffix("_total").unwrap_or(name), MetricType::Counter),
                false => (*name, MetricType::Gauge),
            };
            let mut metric = encoder.encode_descriptor(name, family.help, None, kind)?;
            for (labels, value) in &family.samples {
                let mut sample = metric.encode_family(labels)?;
                match family.is_counter {
                    true => sample.encode_counter::<NoLabelSet, f64, f64>(value, None)?,
                    false => sample.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firndb::Error;
    use prometheus_client::encoding::prometheus_text;
    use prometheus_client::registry::Registry;

    #[test]
    fn a_store_without_figures_does_not_break_the_page() {
        let mut figures = Figures::default();
        let keys = || vec![Figure::counter("firndb_x_total", "Things", 3.0)];
        figures.add_store("a", "log", || Ok(keys()));
        figures.add_store("b", "log", || Err(Error::invalid("broken")));
        figures.add_store("c", "table", || panic!("a bug"));
        figures.add_store("d", "log", || Ok(keys()));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(figures));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "firndb_store_up{store=\"a\",kind=\"log\"} 1.0",
                "firndb_store_up{store=\"b\",kind=\"log\"} 0.0",
                "firndb_store_up{store=\"c\",kind=\"table\"} 0.0",
                "firndb_store_up{store=\"d\",kind=\"log\"} 1.0",
                "firndb_x_total{store=\"a\",kind=\"log\"} 3.0",
                "firndb_x_total{store=\"d\",kind=\"log\"} 3.0",
            ]
        );
        assert_eq!(text.matches("# TYPE firndb_x_total counter\n").count(), 1);
    }
}
