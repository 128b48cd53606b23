//! Results of queries, packed for Java: facets, groups, explanations.

use crate::convert::{Pack, Unpack, long};
use crate::error::Result;
use crate::search::value;
use firndb::search::{Aggregate, Explain, Facet, FacetCounts, Group, GroupBy, Number};

/// The facets that Java packed: for each its field, the number of values, whether it is
/// disjunctive.
pub fn unpack_facets(packed: &[u8]) -> Result<Vec<Facet>> {
    let mut from = Unpack(packed);
    let mut facets = Vec::new();
    while !from.0.is_empty() {
        let facet = Facet::new(from.text()?).top(from.int()? as usize);
        facets.push(if from.byte()? == 0 { facet } else { facet.disjunctive() });
    }
    Ok(facets)
}

pub fn pack_facets(facets: &[FacetCounts]) -> Pack {
    let mut packed = Pack::default();
    for counts in facets {
        packed.text(&counts.field);
        packed.int(counts.values.len() as u32);
        for (value, count) in &counts.values {
            value::pack(&mut packed, Some(value));
            packed.long(long(*count));
        }
        packed.long(long(counts.distinct));
        packed.long(long(counts.missing));
    }
    packed
}

/// The `GroupBy` that Java packed: names of fields to group by and to aggregate, each list after
/// its length.
pub fn unpack_group_by(packed: &[u8]) -> Result<GroupBy> {
    let mut from = Unpack(packed);
    let mut names = || -> Result<Vec<String>> {
        (0..from.int()?).map(|_| Ok(from.text()?.to_string())).collect()
    };
    Ok(GroupBy::new(names()?).aggregates(names()?))
}

pub fn pack_groups(groups: &[Group]) -> Pack {
    let mut packed = Pack::default();
    for group in groups {
        group.key.iter().for_each(|value| value::pack(&mut packed, value.as_ref()));
        packed.long(long(group.count));
        group.aggregates.iter().for_each(|aggregate| pack_aggregate(&mut packed, aggregate));
    }
    packed
}

fn pack_aggregate(packed: &mut Pack, aggregate: &Aggregate) {
    packed.long(long(aggregate.count));
    value::pack(packed, aggregate.min.as_ref());
    value::pack(packed, aggregate.max.as_ref());
    match aggregate.sum {
        None => packed.byte(0),
        Some(Number::Int(sum)) => {
            packed.byte(1);
            packed.long(sum as i64);
            packed.long((sum >> 64) as i64);
        }
        Some(Number::Float(sum)) => {
            packed.byte(2);
            packed.long(sum.to_bits().cast_signed());
        }
    }
    packed.byte(u8::from(aggregate.avg.is_some()));
    if let Some(average) = aggregate.avg {
        packed.long(average.to_bits().cast_signed());
    }
}

pub fn pack_explain(explain: &Explain) -> Pack {
    let mut packed = Pack::default();
    packed.int(explain.plan.len() as u32);
    explain.plan.iter().for_each(|line| packed.text(line));
    packed.long(long(explain.hits));
    packed.long(explain.matches.map_or(-1, long));
    let figures = [
        explain.partitions,
        explain.partitions_pruned,
        explain.docs_touched,
        explain.list_entries_touched,
        explain.bytes_touched,
        u64::try_from(explain.time.as_nanos()).unwrap_or(u64::MAX),
    ];
    figures.into_iter().for_each(|figure| packed.long(long(figure)));
    packed.text(&explain.to_string());
    packed
}
