//! Makes beforehand what queries would make on demand: verified checksums, value statistics, and
//! bundles of small partitions.

use super::Reader;
use crate::Result;
use std::sync::Arc;

/// Makes everything: see [`Reader::warm`].
pub(super) fn warm(reader: &Reader) -> Result<()> {
    let (set, limits) = (&reader.set, &reader.limits);
    for part in &set.partitions {
        limits.check()?;
        part.warm()?;
    }
    set.statistics.warm(set)?;
    let fields = set.schema.fields.iter().enumerate();
    let indexed = fields.filter(|(_, field)| field.roles.filterable || field.roles.sortable);
    set.bundles.make(set, indexed.map(|(i, _)| i), limits)?;
    match set.bundles.current() {
        Some(view) => view.set.statistics.warm(&view.set),
        None => Ok(()),
    }
}

/// Makes what has been made for `before`: see [`Reader::warm_like`].
pub(super) fn warm_like(reader: &Reader, before: &Reader) -> Result<()> {
    let (set, old) = (&reader.set, &before.set);
    for (name, part) in set.names.iter().zip(&set.partitions) {
        reader.limits.check()?;
        let namesake = old.names.binary_search(name).ok().map(|p| &old.partitions[p]);
        match namesake.or(old.partitions.first()) {
            Some(like) if !Arc::ptr_eq(part, like) => part.warm_like(like)?,
            _ => {}
        }
    }
    let number = |name: &str| old.schema.field(name).map(|(i, _)| i);
    let fields = set.schema.fields.iter().enumerate();
    let fields: Vec<(usize, usize)> =
        fields.filter_map(|(i, field)| Some((i, number(&field.name)?))).collect();
    set.statistics.warm_like(set, &old.statistics, &fields)?;
    let Some(known) = old.bundles.current() else { return Ok(()) };
    let wanted = fields.iter().filter(|(_, like)| known.fields[*like]).map(|(i, _)| *i);
    set.bundles.make(set, wanted, &reader.limits)?;
    match set.bundles.current() {
        Some(view) => view.set.statistics.warm_like(&view.set, &known.set.statistics, &fields),
        None => Ok(()),
    }
}
