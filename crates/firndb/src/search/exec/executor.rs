//! Runs a plan on one partition after another and passes the matches to a sink.

use crate::Result;
use crate::search::exec::bind::Binder;
use crate::search::exec::clause::Clause;
use crate::search::exec::context::QueryContext;
use crate::search::exec::scratch::Scratch;
use crate::search::exec::sink::Sink;
use crate::search::exec::small::SmallRun;
use crate::search::exec::workspace::Workspace;
use crate::search::partition::set::QueryLimits;
use crate::search::plan::Plan;
use crate::search::stats::SearchSet;
use std::ops::ControlFlow;

/// A running query: its context and its memory.
pub(crate) struct Executor<'r> {
    pub(crate) query: QueryContext<'r>,
    pub(crate) work: Workspace<'r>,
}

impl<'r> Executor<'r> {
    pub(crate) fn new(
        set: &'r SearchSet,
        plan: &'r Plan,
        limits: &'r QueryLimits,
        scratch: Box<Scratch>,
    ) -> Result<Self> {
        let query = QueryContext::new(set, plan, limits)?;
        Ok(Executor { query, work: Workspace::new(limits, scratch) })
    }

    /// Passes the matches of partition `p` that also satisfy `extra` to the sink.
    pub(crate) fn run(
        &mut self,
        p: usize,
        extra: Vec<Clause<'r>>,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>> {
        self.query.limits.check()?;
        let set = self.query.set;
        let part = &*set.partitions[p];
        if part.is_small() {
            let mut small = SmallRun { query: &self.query, work: &mut self.work };
            return small.run(p, &extra, sink);
        }
        let Some(()) = self.prepare(p, extra)? else { return Ok(ControlFlow::Continue(())) };
        let flow = self.work.conjunction(part, 0, sink);
        self.reset();
        flow
    }

    /// Binds the root's conditions into `self.work.clauses`; `None` if nothing can match.
    pub(crate) fn prepare(&mut self, p: usize, extra: Vec<Clause<'r>>) -> Result<Option<()>> {
        self.work.stats.partitions += 1;
        debug_assert!(self.work.clauses.is_empty());
        self.work.clauses.extend(extra);
        let plan = self.query.plan;
        let mut binder = Binder { query: &self.query, work: &mut self.work };
        let bound = binder.conditions(p, &plan.root);
        if !matches!(bound, Ok(Some(()))) {
            self.reset();
        }
        bound
    }

    /// Drops the clauses of the current partition.
    pub(crate) fn reset(&mut self) {
        self.work.reset();
    }

    /// Collects the matches of a small partition, which should be few.
    pub(crate) fn matches_small(&mut self, p: usize, docs: &mut Vec<u32>) -> Result<()> {
        struct Docs<'d>(&'d mut Vec<u32>);
        impl Sink for Docs<'_> {
            fn ascending(&self) -> bool {
                true
            }
            fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
                self.0.extend_from_slice(docs);
                Ok(ControlFlow::Continue(()))
            }
        }
        docs.clear();
        self.run(p, Vec::new(), &mut Docs(docs)).map(|_| ())
    }
}
