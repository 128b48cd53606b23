//! `explain`: the plan of a query, its estimates, the data it read and the time it took.

use crate::Result;
use crate::search::exec::source::Form;
use crate::search::exec::workspace::Stats;
use crate::search::model::query::Query;
use crate::search::plan::{Node, Plan, PlanDisplay};
use crate::search::reader::Reader;
use std::fmt;
use std::time::{Duration, Instant};

/// How a query was executed: as text ([`fmt::Display`]) and as numbers.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Explain {
    /// The plan, one line per step, with estimated numbers of documents.
    pub plan: Vec<String>,
    /// The number of hits on the page.
    pub hits: u64,
    /// The number of all matches, if the query counts them.
    pub matches: Option<u64>,
    /// The number of partitions of the reader.
    pub partitions: u64,
    /// The number of partitions that were excluded without reading them.
    pub partitions_pruned: u64,
    /// The number of documents that were checked individually.
    pub docs_touched: u64,
    /// The number of postings entries (value -> documents) that were combined into bitsets.
    pub list_entries_touched: u64,
    /// Estimated bytes read, within a factor of two: 4 per document and condition, 4 per postings
    /// entry, 8 per bitset word.
    pub bytes_touched: u64,
    /// The time of the query, including planning.
    pub time: Duration,
}

impl Reader {
    /// Runs a query and reports how it was executed.
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

    /// The lines of [`Explain::plan`].
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
        let strategies = [
            (stats.windows, "looked for both ranges of a point in one window"),
            (stats.by_count, "answered from stored counts"),
            (stats.by_list, "walked a list and checked the other conditions"),
            (stats.by_words, "combined bitsets"),
            (stats.small, "combined small bitsets"),
            (stats.walks, "walked the first key of the order"),
        ];
        if let (members, bundles @ 1..) = stats.bundled {
            lines.push(format!(
                "{members} small partitions searched as {bundles} bundles in memory"
            ));
        }
        if stats.threads > 0 {
            lines.push(format!("shared by {} threads", stats.threads));
        }
        for (partitions, strategy) in
            strategies.into_iter().filter(|(partitions, _)| *partitions > 0)
        {
            lines.push(format!("{strategy} in {partitions} partitions"));
        }
        if !query.order.is_empty() {
            let keys: Vec<String> = query.order.iter().map(ToString::to_string).collect();
            lines.push(format!("order: {}", keys.join(", ")));
        }
        Ok(lines)
    }

    /// An upper bound, over all partitions, on the documents that satisfy one condition.
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
            "partitions: {}, {} of them skipped by their statistics",
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
