//! `explain`: the plan of a query, what it expected, what it touched, how long it took.

use crate::Result;
use crate::search::exec::source::Form;
use crate::search::exec::workspace::Stats;
use crate::search::model::query::Query;
use crate::search::plan::{Node, Plan, PlanDisplay};
use crate::search::reader::Reader;
use std::fmt;
use std::time::{Duration, Instant};

/// What a query did, for people ([`fmt::Display`]) and machines.
#[derive(Clone, Debug, Default)]
pub struct Explain {
    /// The plan, a line a step, with expected numbers of documents.
    pub plan: Vec<String>,
    /// Documents on the page.
    pub hits: u64,
    /// All matches, if the query counts them.
    pub matches: Option<u64>,
    /// Partitions of the reader.
    pub partitions: u64,
    /// Partitions that were ruled out without touching them.
    pub partitions_pruned: u64,
    /// Documents that were looked at one by one.
    pub docs_touched: u64,
    /// Entries of lists (value -> documents) that were combined, as bitsets.
    pub list_entries_touched: u64,
    /// Bytes of structures that were touched, within a factor of two: 4 a document and condition, 4
    /// an entry of a list, 8 a word of a bitset.
    pub bytes_touched: u64,
    /// Time of the query, planning included.
    pub time: Duration,
}

impl Reader {
    /// Runs a query and tells what it did.
    pub fn explain(&self, query: &Query) -> Result<Explain> {
        let start = Instant::now();
        let (page, stats) = self.search_counted(query)?;
        let time = start.elapsed();
        let plan = Plan::new(&query.filter, &self.set.schema)?;
        let conditions = plan.leaves.len().max(1) as u64;
        Ok(Explain {
            plan: self.describe(&plan, query, &stats)?,
            hits: page.hits.len() as u64,
            matches: page.count,
            partitions: self.set.partitions.len() as u64,
            partitions_pruned: stats.pruned,
            docs_touched: stats.docs,
            list_entries_touched: stats.postings,
            bytes_touched: stats.docs * 4 * conditions + stats.postings * 4 + stats.words * 8,
            time,
        })
    }

    fn describe(&self, plan: &Plan, query: &Query, stats: &Stats) -> Result<Vec<String>> {
        let schema = &self.set.schema;
        let mut lines = vec![format!("filter: {}", PlanDisplay(plan, &plan.root, schema))];
        let parts = match &plan.root {
            Node::And(parts) => parts.as_slice(),
            other => std::slice::from_ref(other),
        };
        for part in parts.iter().filter(|part| matches!(part, Node::Leaf(..))) {
            let expected = self.at_most(plan, part)?;
            lines.push(format!(
                "  {}: at most {expected} documents",
                PlanDisplay(plan, part, schema)
            ));
        }
        let ways = [
            (stats.windows, "looked for both ranges of a point in one window"),
            (stats.by_count, "answered from stored counts"),
            (stats.by_list, "walked a list and checked the other conditions"),
            (stats.by_words, "combined bitsets"),
            (stats.small, "combined small bitsets"),
            (stats.walks, "walked the first key of the order"),
        ];
        if let (members, bundles @ 1..) = stats.bundled {
            lines.push(format!("{members} small partitions asked as {bundles} bundles in memory"));
        }
        if stats.threads > 0 {
            lines.push(format!("shared by {} threads", stats.threads));
        }
        for (times, what) in ways.into_iter().filter(|(times, _)| *times > 0) {
            lines.push(format!("{what} in {times} partitions"));
        }
        if !query.order.is_empty() {
            let keys: Vec<String> = query.order.iter().map(ToString::to_string).collect();
            lines.push(format!("order: {}", keys.join(", ")));
        }
        Ok(lines)
    }

    /// Documents that satisfy one condition, at most, over all partitions.
    fn at_most(&self, plan: &Plan, leaf: &Node) -> Result<u64> {
        let single = Plan { root: leaf.clone(), leaves: plan.leaves.clone() };
        let (total, _) = self.execute_on(&self.set, &single, |executor| {
            let mut total = 0;
            for p in 0..self.set.partitions.len() {
                let documents = self.set.partitions[p].documents;
                if executor.prepare(p, Vec::new())?.is_some() {
                    let clause = executor.work.clauses.first();
                    let all = u64::from(documents);
                    total += clause.map_or(all, |clause| match clause.form {
                        Form::Bits(_) => all,
                        _ => clause.at_most(documents),
                    });
                }
                executor.reset();
            }
            Ok(total)
        })?;
        Ok(total)
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        let matches = self.matches.map_or(String::new(), |n| format!(" of {n} matches"));
        writeln!(f, "found: {} documents{matches}", self.hits)?;
        writeln!(
            f,
            "partitions: {}, {} of them ruled out",
            self.partitions, self.partitions_pruned
        )?;
        writeln!(
            f,
            "touched: {} documents, {} list entries, {} bytes",
            self.docs_touched, self.list_entries_touched, self.bytes_touched
        )?;
        write!(f, "time: {:.1} us", self.time.as_secs_f64() * 1e6)
    }
}
