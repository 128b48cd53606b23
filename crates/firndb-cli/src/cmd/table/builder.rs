//! Builds a table of either kind.

use super::{Approximation, continue_unless_stopped};
use crate::interrupt::{self, Step};
use firndb::table::{
    ApproximateBuilder, ApproximateOptions, BuildOptions, Duplicates, Progress, TableBuilder,
};
use firndb::{Error, Result};
use std::ops::ControlFlow;
use std::path::Path;

use super::Layout;

/// Collects the records of a table.
pub enum AnyBuilder {
    /// In key order the unfinished table may have a file before `finish`: the step ends after the
    /// builder has removed it.
    Exact(Box<TableBuilder>, Option<Step>),
    Approximate {
        builder: Box<ApproximateBuilder>,
        bytes: u64,
    },
}

/// What was built.
pub struct Built {
    pub records: u64,
    /// Records that were left out because their key occurred before.
    pub duplicates: u64,
    /// Bytes of keys and values.
    pub data_bytes: u64,
    /// Bytes written to temporary files.
    pub spilled_bytes: u64,
}

impl AnyBuilder {
    /// Starts the build of the table `path`, whose values have this schema. While they add records,
    /// callers have to poll [`interrupt::check`], or a flag that a signal sets.
    pub fn create(
        path: &Path,
        layout: &Layout,
        approximation: &Approximation,
        duplicates: Duplicates,
        schema: &str,
    ) -> Result<AnyBuilder> {
        let Some((width, bits)) = approximation.widths() else {
            let options: BuildOptions = layout.options()?;
            let options = options.duplicates(duplicates).value_schema(schema);
            let step = layout.is_ordered().then(interrupt::step);
            let builder = TableBuilder::create_with(path, options)?;
            return Ok(AnyBuilder::Exact(Box::new(builder), step));
        };
        if !schema.is_empty() {
            let message = "values of an approximate table are bytes of one width, not rows: name \
                           one column with --value";
            return Err(Error::invalid(message));
        }
        let options: ApproximateOptions = layout.approximate_options()?;
        let options = options.duplicates(duplicates).value_width(width).fingerprint_bits(bits);
        let builder = Box::new(ApproximateBuilder::create_with(path, options)?);
        Ok(AnyBuilder::Approximate { builder, bytes: 0 })
    }

    pub fn name_origins(&mut self, name: impl Fn(u64) -> String + Sync + Send + 'static) {
        match self {
            AnyBuilder::Exact(builder, _) => builder.name_origins(name),
            AnyBuilder::Approximate { builder, .. } => builder.name_origins(name),
        }
    }

    pub fn add_from(&mut self, origin: u64, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            AnyBuilder::Exact(builder, _) => builder.add_from(origin, key, value),
            AnyBuilder::Approximate { builder, bytes } => {
                builder.add_from(origin, key, value)?;
                *bytes += (key.len() + value.len()) as u64;
                Ok(())
            }
        }
    }

    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            AnyBuilder::Exact(builder, _) => builder.add(key, value),
            AnyBuilder::Approximate { builder, bytes } => {
                *bytes += (key.len() + value.len()) as u64;
                builder.add(key, value)
            }
        }
    }

    /// Writes the table. A signal cancels it; `progress` may, too.
    pub fn finish(self, mut progress: impl FnMut(Progress) -> ControlFlow<()>) -> Result<Built> {
        let step = interrupt::step();
        let built = match self {
            AnyBuilder::Exact(builder, _step) => {
                let report = builder.finish_with(|now| match progress(now) {
                    ControlFlow::Break(()) => ControlFlow::Break(()),
                    ControlFlow::Continue(()) => continue_unless_stopped(),
                })?;
                Built {
                    records: report.records,
                    duplicates: report.duplicates,
                    data_bytes: report.bytes,
                    spilled_bytes: report.spilled,
                }
            }
            AnyBuilder::Approximate { builder, bytes } => {
                let report = builder.finish()?;
                Built {
                    records: report.records,
                    duplicates: report.duplicates,
                    data_bytes: bytes,
                    spilled_bytes: report.spilled,
                }
            }
        };
        interrupt::says("the table is complete");
        drop(step);
        Ok(built)
    }
}
